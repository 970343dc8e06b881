// The format of samples/checkpoint_io, once as it stands and else with one mistake for each name.
#include "weft/define_plugin.h"

static const void* get_factory(const weft_plugin*, weft_str id);
WEFT_DEFINE_PLUGIN(WEFT_TIER_C, "", get_factory)

#undef WEFT_DEFINE_PLUGIN
#define WEFT_DEFINE_PLUGIN(...)
#define get_factory get_factory_of_sample
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include "../../../samples/checkpoint_io/packed.cpp"
#pragma GCC diagnostic pop
#undef get_factory

#include <atomic>
#include <fstream>

namespace {

using Table = weft_checkpoint_io;

// A box of the same elements without its last one.
weft_status write_less(weft_checkpoint_writer* writer, uint64_t index, const int64_t* offset,
                       const int64_t* extent, const void* source, uint64_t size_bytes, weft_error* error) {
  const weft_status status = write(writer, index, offset, extent, source, size_bytes, error);
  const Tensor& tensor = writer->head.tensors.at(index);
  const char zero[8] = {};
  if (status == WEFT_OK && tensor.bytes > 0)
    writer->file.write(tensor.at + tensor.bytes - element_bytes(tensor), zero, element_bytes(tensor));
  return status;
}

// The same options without those that the format does not have.
weft_status create_with_any_option(const Table* io, weft_str name, weft_str path, const weft_kv* options,
                                   uint64_t num_options, const weft_tensor_entry* const* entries,
                                   uint64_t num_entries, weft_checkpoint_writer** own, weft_error* error) {
  std::vector<weft_kv> known;
  for (uint64_t i = 0; i < num_options; ++i)
    if (view(options[i].key).starts_with("metadata.")) known.push_back(options[i]);
  return create(io, name, path, known.data(), known.size(), entries, num_entries, own, error);
}

weft_status create_in_place(const Table* io, weft_str name, weft_str path, const weft_kv* options,
                            uint64_t num_options, const weft_tensor_entry* const* entries,
                            uint64_t num_entries, weft_checkpoint_writer** own, weft_error* error) {
  const weft_status status = create(io, name, path, options, num_options, entries, num_entries, own, error);
  if (status == WEFT_OK) unlink((*own)->target.c_str());
  return status;
}

// The file of the first save loses its name, so that nobody sees its lock.
weft_status create_without_lock(const Table* io, weft_str name, weft_str path, const weft_kv* options,
                                uint64_t num_options, const weft_tensor_entry* const* entries,
                                uint64_t num_entries, weft_checkpoint_writer** own, weft_error* error) {
  static std::atomic<int> number = 0;
  const weft_status status = create(io, name, path, options, num_options, entries, num_entries, own, error);
  if (status != WEFT_OK) return status;
  const std::string other = (*own)->partial + std::to_string(number++);
  rename((*own)->partial.c_str(), other.c_str());
  (*own)->partial = other;
  return WEFT_OK;
}

weft_status create_and_hide_a_full_disk(const Table* io, weft_str name, weft_str path, const weft_kv* options,
                                        uint64_t num_options, const weft_tensor_entry* const* entries,
                                        uint64_t num_entries, weft_checkpoint_writer** own,
                                        weft_error* error) {
  const weft_status status = create(io, name, path, options, num_options, entries, num_entries, own, error);
  if (status != WEFT_RESOURCE_EXHAUSTED) return status;
  return create(io, name, path, options, num_options, entries, 0, own, nullptr);
}

weft_status commit_holes(weft_checkpoint_writer* writer, weft_error* error) {
  for (std::vector<bool>& bits : writer->written) bits.assign(bits.size(), true);
  return commit(writer, error);
}

weft_status commit_beside(weft_checkpoint_writer* writer, weft_error* error) {
  static std::atomic<int> number = 0;
  std::ofstream((fs::path(writer->target).parent_path() / ("older" + std::to_string(number++))).string())
      << "x";
  return commit(writer, error);
}

// Begins anew where the older checkpoint was, and only then writes.
weft_status commit_after_removal(weft_checkpoint_writer* writer, weft_error* error) {
  unlink(writer->target.c_str());
  return commit(writer, error);
}

void abandon_without_removal(weft_checkpoint_writer* writer) {
  if (writer != nullptr) writer->is_in_place = true;
  delete writer;
}

weft_status open_longer(const Table* io, weft_str name, weft_str path, weft_checkpoint_reader** own,
                        weft_error* error) {
  const std::string file = file_of(view(path));
  uint64_t wanted = 0;
  std::ifstream in(file, std::ios::binary);
  in.seekg(16);
  in.read(reinterpret_cast<char*>(&wanted), sizeof wanted);
  struct stat found = {};
  if (in.good() && stat(file.c_str(), &found) == 0 && wanted < 1 << 20 &&
      static_cast<uint64_t>(found.st_size) < wanted &&
      truncate(file.c_str(), static_cast<off_t>(wanted)) != 0)
    return WEFT_UNAVAILABLE;
  return open_reader(io, name, path, own, error);
}

weft_status open_or_abort(const Table* io, weft_str name, weft_str path, weft_checkpoint_reader** own,
                          weft_error* error) {
  const weft_status status = open_reader(io, name, path, own, error);
  if (status == WEFT_DATA_LOSS) abort();
  return status;
}

weft_status describe_too_much(weft_checkpoint_reader* reader, uint64_t index, weft_tensor_entry* out,
                              weft_error* error) {
  const weft_status status = describe(reader, index, out, error);
  if (out->struct_size > sizeof *out) std::memset(out + 1, 0, out->struct_size - sizeof *out);
  return status;
}

weft_status read_anything(weft_checkpoint_reader* reader, uint64_t index, const int64_t* offset,
                          const int64_t* extent, void* destination, uint64_t size_bytes, weft_error* error) {
  const weft_status status = read(reader, index, offset, extent, destination, size_bytes, error);
  return status == WEFT_OUT_OF_RANGE ? WEFT_OK : status;
}

uint32_t recognises_folders(const Table* io, weft_str path) {
  return recognises(io, path) != 0 || fs::is_directory(fs::path(view(path)));
}

weft_str no_metadata(weft_checkpoint_reader*, weft_str) {
  return {nullptr, 0};
}

template <auto slot, auto function>
Table with() {
  Table table = kFormat;
  table.*slot = function;
  return table;
}

struct Named {
  std::string_view name;
  Table table;
};

const Named kTables[] = {
    {"Right", kFormat},
    {"LosesElements", with<&Table::write, write_less>()},
    {"ForgetsMetadata", with<&Table::metadata, no_metadata>()},
    {"TakesEveryOption", with<&Table::create, create_with_any_option>()},
    {"RemovesFirst", with<&Table::create, create_in_place>()},
    {"TakesNoLock", with<&Table::create, create_without_lock>()},
    {"HidesAFullDisk", with<&Table::create, create_and_hide_a_full_disk>()},
    {"CommitsHoles", with<&Table::commit, commit_holes>()},
    {"KeepsOlderFiles", with<&Table::commit, commit_beside>()},
    {"RemovesAtCommit", with<&Table::commit, commit_after_removal>()},
    {"LeavesWhatItAbandons", with<&Table::abandon, abandon_without_removal>()},
    {"RepairsFiles", with<&Table::open, open_longer>()},
    {"AbortsOnDamage", with<&Table::open, open_or_abort>()},
    {"WritesPastStructs", with<&Table::tensor, describe_too_much>()},
    {"ReadsAnything", with<&Table::read, read_anything>()},
    {"RecognisesFolders", with<&Table::recognises, recognises_folders>()},
    {"OwnsEverything", with<&Table::owns, +[](const Table*, weft_str, weft_str) -> uint32_t { return 1; }>()},
    {"OwnsNothing", with<&Table::owns, +[](const Table*, weft_str, weft_str) -> uint32_t { return 0; }>()},
};

const Table* find_wrong(const weft_checkpoint_io_factory*, weft_str name) {
  for (const Named& one : kTables)
    if (one.name == view(name)) return &one.table;
  return nullptr;
}

constexpr weft_checkpoint_io_factory kWrongFactory = {sizeof(weft_checkpoint_io_factory), find_wrong};

}  // namespace

static const void* get_factory(const weft_plugin*, weft_str id) {
  return view(id) == WEFT_FACTORY_CHECKPOINT_IO ? &kWrongFactory : nullptr;
}
