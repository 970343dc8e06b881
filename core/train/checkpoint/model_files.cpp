#include "checkpoint/model_files.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "apply/adapter.hpp"
#include "base/text.hpp"
#include "checkpoint/shard_pieces.hpp"
#include "checkpoint/stored_names.hpp"
#include "comm/agreement.hpp"
#include "device/tensors.hpp"
#include "log.hpp"
#include "weft/nn/batch_norm.hpp"

namespace weft::checkpoint {

namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

std::string first_names(const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMost));
  const std::string more = names.size() > kMost ? fmt::format(" and {} more", names.size() - kMost) : "";
  return fmt::format("{}{}", fmt::join(names.begin(), end, ", "), more);
}

// What stands in front of the parameter's name in the checkpoint, relative to the model's own names.
struct Prefixes {
  std::string removed;  // from the model's name
  std::string added;    // in the checkpoint
};

Prefixes find_prefixes(const StoredNames& stored, const std::vector<std::string>& names,
                       const std::string& base) {
  const bool direct =
      std::any_of(names.begin(), names.end(), [&](const auto& n) { return stored.find(n).has_value(); });
  if (direct && (base.empty() || std::any_of(names.begin(), names.end(), [&](const auto& n) {
                   return n.starts_with(base) && stored.find(n);
                 })))
    return {};
  if (!base.empty()) return {base, ""};
  const std::set<std::string, std::less<>> known(names.begin(), names.end());
  for (const std::string& name : stored.all())
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      if (known.contains(std::string_view(name).substr(dot + 1))) return {"", name.substr(0, dot + 1)};
  return {};
}

// Returns the name under which checkpoints that were converted from TensorFlow have a parameter, or nothing.
std::optional<std::string> old_name(std::string_view name) {
  for (const auto& [now, before] :
       {std::pair("LayerNorm.weight", "LayerNorm.gamma"), std::pair("LayerNorm.bias", "LayerNorm.beta")})
    if (name.ends_with(now))
      return std::string(name.substr(0, name.size() - std::string_view(now).size())) + before;
  return std::nullopt;
}

// Returns true if two entries have the same shape and, read in the dtype of the first, the same bits, so that
// copies of NaN are equal.
bool same_values(const Reader& reader, size_t one, size_t other) {
  constexpr int64_t kBlock = 1 << 20;  // elements
  const Entry& entry = reader.entries()[one];
  if (reader.entries()[other].shape != entry.shape) return false;
  for (int64_t begin = 0; begin < entry.numel(); begin += kBlock) {
    const at::Tensor block = at::empty({std::min(kBlock, entry.numel() - begin)}, entry.dtype);
    const at::Tensor other_block = at::empty_like(block);
    reader.read_range(one, begin, block);
    reader.read_range(other, begin, other_block);
    if (std::memcmp(block.const_data_ptr(), other_block.const_data_ptr(), block.nbytes()) != 0) return false;
  }
  return true;
}

// Adds the buffers that checkpoints keep.
void add_buffers(const nn::Model& model, std::vector<std::string>& names,
                 std::map<std::string, std::vector<int64_t>>& shapes) {
  for (const auto& [name, buffer] : nn::kept_buffers(model)) {
    names.push_back(name);
    shapes[name] = buffer.sizes().vec();
  }
}

}  // namespace

WeightMap::WeightMap(const Reader& reader, const nn::Model& model, const Bindings* training, bool new_head) {
  std::map<std::string, std::vector<std::string>> aliases;  // by canonical name
  std::set<std::string> alias_names;
  for (const nn::Tie& tie : model.ties()) {
    aliases[tie.canonical].push_back(tie.name);
    alias_names.insert(tie.name);
  }
  std::vector<std::string> names;
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& item : model.named_parameters(true)) {
    if (alias_names.count(item.key())) continue;
    names.push_back(item.key());
    shapes[item.key()] =
        training != nullptr ? training->find_param(item.key())->shape : item.value().sizes().vec();
  }
  add_buffers(model, names, shapes);
  const StoredNames stored(reader, reader.path(), names);
  const Prefixes prefixes = find_prefixes(stored, names, model.base_prefix());
  const auto in_checkpoint = [&](const std::string& name) {
    const std::string inner =
        name.starts_with(prefixes.removed) ? name.substr(prefixes.removed.size()) : name;
    const std::optional<size_t> entry = stored.find(prefixes.added + inner);
    const std::optional<std::string> old = old_name(inner);
    return entry || !old ? entry : stored.find(prefixes.added + *old);
  };
  std::set<size_t> used;
  for (const std::string& name : names) {
    const bool begins_new = new_head && !name.starts_with(model.base_prefix());
    std::optional<size_t> entry = begins_new ? std::nullopt : in_checkpoint(name);
    for (const std::string& alias : aliases[name]) {
      const auto found = in_checkpoint(alias);
      if (found) used.insert(*found);
      // Files of PyTorch have a tied parameter under each of its names.
      if (entry && found && !same_values(reader, *entry, *found))
        fail(WEFT_INVALID_ARGUMENT,
             "{}: {} and {} have different values, but are one parameter of {}; a family that has a "
             "head of its own needs \"tie_word_embeddings\": false in config.json, otherwise delete the "
             "entry that is wrong",
             reader.path(), reader.entries()[*entry].name, reader.entries()[*found].name,
             model.architecture());
      if (!entry) entry = found;
    }
    if (!entry) {
      missing_.push_back(name);
      continue;
    }
    const Entry& found = reader.entries()[*entry];
    if (found.shape != shapes[name])
      fail(WEFT_INVALID_ARGUMENT,
           "{}: {} has shape {} there, but {} in {}; the configuration is not the checkpoint's",
           reader.path(), found.name, shape_text(found.shape), shape_text(shapes[name]),
           model.architecture());
    used.insert(*entry);
    entry_of_[name] = *entry;
  }
  for (size_t i = 0; i < reader.entries().size(); ++i)
    if (!used.count(i) && !model.ignored_on_load(stored.all()[i]))
      unexpected_.push_back(reader.entries()[i].name);
}

std::optional<size_t> WeightMap::find(const std::string& parameter) const {
  const auto found = entry_of_.find(parameter);
  return found == entry_of_.end() ? std::nullopt : std::optional<size_t>(found->second);
}

void WeightMap::require_exact(const std::string& path, const nn::Model& model) const {
  if (missing_.empty() && unexpected_.empty()) return;
  fail(WEFT_INVALID_ARGUMENT,
       "{} does not hold exactly the parameters of {}: missing [{}], unexpected [{}]; load with strict=false "
       "to take what matches",
       path, model.architecture(), first_names(missing_), first_names(unexpected_));
}

namespace {

// The parameters among `names` without which the checkpoint is not this model's.
std::vector<std::string> required(std::vector<std::string> names, const nn::Model& model, Missing allowed) {
  if (allowed == Missing::kAnything) return {};
  if (allowed == Missing::kNothing) return names;
  const std::optional<Adapter> adapter = adapter_of(model);
  const std::vector<std::string> added = adapter ? adapter->parameters : std::vector<std::string>();
  const std::set<std::string> additions(added.begin(), added.end());
  std::erase_if(
      names, [&](const std::string& name) { return model.may_begin_new(name) || additions.contains(name); });
  return names;
}

class WeightSource final : public ParameterSource {
 public:
  WeightSource(const std::string& path, const std::string& format, const nn::Model& model, Missing missing,
               bool speaks, bool new_head)
      : reader_(path, format), map_(reader_, model, nullptr, new_head) {
    if (map_.empty())
      fail(WEFT_INVALID_ARGUMENT, "{} holds no parameter of {}: it has {} entries ({}), wanted are [{}]",
           path, model.architecture(), reader_.entries().size(), first_names(map_.unexpected()),
           first_names(map_.missing()));
    if (const auto wanted = required(map_.missing(), model, missing); !wanted.empty())
      fail(WEFT_DATA_LOSS,
           "{} lacks {} of the parameters of {}: {}; give the folder of the whole model, or "
           "--allow-missing to begin with initial values for these",
           path, wanted.size(), model.architecture(), first_names(wanted));
    if (!speaks) return;
    const auto one_or = [](const std::vector<std::string>& names, const char* one, const char* several) {
      return names.size() == 1 ? one : several;
    };
    if (const auto& names = map_.missing(); !names.empty())
      log(WEFT_LOG_WARNING, fmt::format("{} {} of {} {} not in {} and {} with initial values: {}",
                                        names.size(), one_or(names, "parameter", "parameters"),
                                        model.architecture(), one_or(names, "is", "are"), path,
                                        one_or(names, "begins", "begin"), first_names(names)));
    if (const auto& names = map_.unexpected(); !names.empty())
      log(WEFT_LOG_WARNING,
          fmt::format("{} {} of {} {} not used by {}: {}", names.size(), one_or(names, "entry", "entries"),
                      path, one_or(names, "is", "are"), model.architecture(), first_names(names)));
  }
  bool read(const std::string& name, const Box& box, const at::Tensor& destination) override {
    const auto entry = map_.find(name);
    if (entry) reader_.read(*entry, box, destination);
    return entry.has_value();
  }

 private:
  Reader reader_;
  WeightMap map_;
};

}  // namespace

std::shared_ptr<ParameterSource> weight_source(const std::string& path, const std::string& format,
                                               const nn::Model& model, Missing missing, bool speaks,
                                               bool new_head) {
  return std::make_shared<WeightSource>(path, format, model, missing, speaks, new_head);
}

namespace {

Entry entry_of(const weft_param& param) {
  return {param.name, param.tensor.scalar_type(), param.shape};
}

}  // namespace

Pieces held_values(const std::vector<Shard>& shards) {
  Pieces pieces;
  for (const Shard& shard : shards)
    add_held(shard, entry_of(*shard.param), shard.param->index, shard.value, pieces);
  return pieces;
}

Pieces wanted_values(const std::vector<Shard>& shards) {
  Pieces pieces;
  for (const Shard& shard : shards)
    add_wanted(shard, entry_of(*shard.param), shard.param->index, shard.value, pieces);
  return pieces;
}

void write_gathered(const std::string& path, const WriteOptions& options, const Communicator& ranks,
                    const Pieces& pieces) {
  const std::vector<TensorHolders> all_holders = gather_holders(ranks, pieces);
  std::vector<Entry> entries;
  for (const TensorHolders& known : all_holders) {
    if (!known.is_whole())
      fail(WEFT_INTERNAL, "the ranks together do not hold {} exactly once", known.tensor.name);
    entries.push_back(known.tensor);
  }
  std::optional<Writer> writer;
  on_master(ranks, [&] { writer.emplace(path, options, entries); });
  const PiecesByName own = by_name(pieces);
  Deferred writing;  // a full disk must not leave the others waiting for the master
  for (size_t i = 0; i < all_holders.size(); ++i)
    exchange(ranks, all_holders[i], own, {{0, Box::whole(entries[i].shape)}},
             [&](const Box& part, const at::Tensor& values) {
               writing.run([&] { writer->write(i, part, values); });
             });
  on_master(ranks, [&] {
    writing.rethrow();
    writer->commit();
  });
}

void read_weights(const std::string& path, const Bindings& training, const std::vector<Shard>& shards,
                  bool strict, const TensorSource* masters) {
  const Reader reader(path, training.options().booster.checkpoint_io);
  const WeightMap map(reader, training.model(), &training);
  if (strict) map.require_exact(path, training.model());
  at::NoGradGuard no_grad;
  for (const Piece& piece : wanted_values(shards)) {
    const std::string& name = piece.tensor.name;
    if (const auto master = masters == nullptr ? std::nullopt : masters->find(name))
      masters->read(*master, piece.box, piece.values);
    else if (const auto entry = map.find(name))
      reader.read(*entry, piece.box, piece.values);
  }
  for (const auto& [name, buffer] : nn::kept_buffers(training.model())) {
    const at::Tensor values = device::on_host(buffer).clone();
    if (const auto entry = map.find(name)) reader.read(*entry, Box::whole(buffer.sizes().vec()), values);
    buffer.copy_(values);
  }
}

}  // namespace weft::checkpoint
