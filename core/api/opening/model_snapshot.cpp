#include "opening/model_snapshot.hpp"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "apply/adapter.hpp"
#include "base/text.hpp"
#include "checkpoint/model_files.hpp"
#include "checkpoint/training_state.hpp"
#include "comm/agreement.hpp"
#include "device/tensors.hpp"
#include "opening/model_state.hpp"
#include "weft/nn/batch_norm.hpp"

namespace weft {

namespace fs = std::filesystem;

namespace {

// Returns the configuration to save, with the architecture that from_pretrained is to make. The dtype under
// these keys is the one to which from_pretrained would convert the weights, so it has to be theirs.
std::string saved_config(const Model& model) {
  nlohmann::json config = nlohmann::json::parse(model.config().dump());
  config["architectures"] = {model.architecture()};
  nlohmann::json& map = config["auto_map"];
  if (map.is_object() && map.contains("AutoModel") && map["AutoModel"].is_string()) {
    const std::string name = map["AutoModel"];
    map["AutoModel"] = name.substr(0, name.rfind('.') + 1) + model.architecture();
  }
  if (map.is_null()) config.erase("auto_map");
  const std::vector<at::Tensor> parameters = model.module().parameters();
  for (const char* key : {"dtype", "torch_dtype"})
    if (config.contains(key) && !parameters.empty())
      config[key] = c10::getDtypeNames(parameters.front().scalar_type()).first;
  return config.dump(2) + "\n";
}

// Writes the tokenizer's files. Those of an earlier save are links to its files, so they are replaced and not
// written to.
void write_tokenizer(const Tokenizer& tokenizer, const fs::path& folder) {
  const fs::path own = folder / ".tokenizer";
  fs::create_directory(own);
  tokenizer.save(own.string());
  for (const fs::directory_entry& file : fs::directory_iterator(own)) {
    const fs::path place = folder / file.path().filename();
    if (file.is_directory()) fs::remove_all(place);
    fs::rename(file.path(), place);
  }
  fs::remove(own);
}

}  // namespace

std::function<bool(const fs::path&)> kept_by_saves(const std::string& prefix) {
  return [prefix](const fs::path& name) {
    return name != "config.json" && name != checkpoint::kStateFolder && name != kAverageFolder &&
           !checkpoint::is_weight_file(name.string(), prefix);
  };
}

checkpoint::WriteOptions write_options(const SaveOptions& options, const std::string& format) {
  if (options.size_per_shard <= 0)
    fail(WEFT_INVALID_ARGUMENT, "size_per_shard is {} MB, must be positive", options.size_per_shard);
  return {options.shard, options.prefix, options.size_per_shard, options.use_safetensors, {}, format};
}

SharedStaging::SharedStaging(const Communicator& ranks, const std::string& path, const std::string& prefix)
    : ranks_(ranks) {
  on_master(ranks_, [&] { folder_.emplace(path, kept_by_saves(prefix)); });
  path_ = ranks_.broadcast_text(folder_ ? folder_->path().string() : "", 0);
}

fs::path SharedStaging::make_folder(const char* name) const {
  on_master(ranks_, [&] { fs::create_directory(path_ / name); });
  return path_ / name;
}

fs::path SharedStaging::make_shared_folder(const char* name) const {
  const fs::path made = make_folder(name);
  on_every_rank(ranks_, [&] {
    if (!fs::is_directory(made))
      fail(WEFT_FAILED_PRECONDITION,
           "{} is not there on rank {}: all ranks write the training state, so the folder has to be on a "
           "file system that they share",
           made.string(), ranks_.rank());
  });
  return made;
}

void SharedStaging::publish() {
  on_master(ranks_, [&] { folder_->publish(); });
}

ModelSnapshot::ModelSnapshot(const Model& model, const SaveOptions& save, const std::string& format,
                             checkpoint::Pieces held)
    : config(saved_config(model)),
      generation_config(model.shared().generation_config),
      tokenizer(model.shared().tokenizer),
      options(write_options(save, format)),
      pieces(std::move(held)),
      companions(model.shared().companions),
      constants_(model.module().constants()) {
  for (const auto& [name, buffer] : nn::kept_buffers(model.module()))
    constants_.set(name, device::on_host(buffer.detach()).clone());
  const std::optional<Adapter> adapter = adapter_of(model.module());
  if (!adapter || adapter->operation == nullptr || adapter->operation->configuration == nullptr) return;
  adapter_config = adapter->operation->configuration(plan::Attributes(adapter->attributes), adapter->layers);
  adapter_parameters = adapter->parameters;
}

// Writes the files that PEFT reads: https://huggingface.co/docs/peft/developer_guides/checkpoint
void ModelSnapshot::write_adapter(const fs::path& folder, const Communicator& ranks) const {
  checkpoint::Pieces added;
  for (checkpoint::Piece piece : pieces) {
    const auto& names = adapter_parameters;
    if (std::find(names.begin(), names.end(), piece.tensor.name) == names.end()) continue;
    piece.tensor.name = "base_model.model." + piece.tensor.name;
    added.push_back(std::move(piece));
  }
  checkpoint::write_gathered((folder / "adapter_model.safetensors").string(), {}, ranks, added);
  on_master(ranks, [&] { checkpoint::write_file(folder / "adapter_config.json", adapter_config); });
}

// They follow the parameters, and every rank has them.
checkpoint::Pieces ModelSnapshot::all_pieces(const Communicator& ranks) const {
  checkpoint::Pieces all = pieces;
  int64_t order = std::numeric_limits<int64_t>::max() - static_cast<int64_t>(constants_.size());
  for (const auto& [name, values] : constants_) {
    const std::vector<int64_t> shape = values.sizes().vec();
    all.push_back({.tensor = {name, values.scalar_type(), shape},
                   .order = order++,
                   .box = Box::whole(shape),
                   .values = values,
                   .counted = ranks.rank() == 0});
  }
  return all;
}

void ModelSnapshot::write(const fs::path& folder, const Communicator& ranks) const {
  checkpoint::write_gathered(folder.string(), options, ranks, all_pieces(ranks));
  on_master(ranks, [&] {
    checkpoint::write_file(folder / "config.json", config);
    const fs::path generation = folder / kGenerationConfig;
    if (!generation_config.empty() && !fs::exists(generation))
      checkpoint::write_file(generation, generation_config);
    for (const auto& [name, text] : companions) checkpoint::write_file(folder / name, text);
    if (tokenizer) write_tokenizer(*tokenizer, folder);
  });
  if (!adapter_config.empty()) write_adapter(folder, ranks);
}

std::string ModelSnapshot::weights_in(const fs::path& folder) const {
  if (options.prefix.empty()) return folder.string();
  const std::string stem = options.use_safetensors ? "model" : "pytorch_model";
  const std::string extension = options.use_safetensors ? ".safetensors" : ".bin";
  return (folder / (options.shard ? stem + extension + ".index." + options.prefix + ".json"
                                  : stem + "." + options.prefix + extension))
      .string();
}

void ModelSnapshot::check_weights_path() const {
  const checkpoint::Format& format = checkpoint::format_named(options.format);
  if (!options.prefix.empty() && !checkpoint::is_default(format))
    fail(WEFT_INVALID_ARGUMENT,
         "prefix \"{}\" is for file names of the default checkpoint format, and the format is {}: leave one "
         "of "
         "the two out",
         options.prefix, format.label);
}

void ModelSnapshot::save(const std::string& path, const Communicator& ranks) const {
  if (ranks.broadcast_text(checkpoint::names_a_file(path) ? "file" : "folder", 0) == "file")
    return checkpoint::write_gathered(path, options, ranks, all_pieces(ranks));
  SharedStaging staging(ranks, path, options.prefix);
  write(staging.path(), ranks);
  staging.publish();
}

}  // namespace weft
