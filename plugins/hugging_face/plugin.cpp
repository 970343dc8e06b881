// The C table of the formats "hugging_face", "safetensors" and "pytorch", on top of its C++ classes. No
// exception leaves this file.
#include <algorithm>
#include <new>

#include "checkpoint_reader.hpp"
#include "checkpoint_writer.hpp"
#include "text.hpp"
#include "weft/checkpoint_io.h"
#include "weft/define_plugin.h"

static const void* get_factory(const weft_plugin*, weft_str id);
WEFT_DEFINE_PLUGIN(WEFT_TIER_C, "", get_factory)

namespace hf = weft::hugging_face;

struct weft_checkpoint_reader {
  hf::CheckpointReader reader;
};

struct weft_checkpoint_writer {
  hf::CheckpointWriter writer;
};

namespace {

constexpr std::string_view kSafetensors = "safetensors", kPyTorch = "pytorch";
constexpr uint64_t kEntrySize = WEFT_END_OF(weft_tensor_entry, shape);  // a newer host may have more

std::string_view view(weft_str text) {
  return {text.data == nullptr ? "" : text.data, text.size};
}

// Refuses a NUL inside a path, where the system would end it.
std::string checked_path(weft_str path) {
  if (view(path).find('\0') != std::string_view::npos) {
    hf::fail(WEFT_INVALID_ARGUMENT, "the path ", hf::in_quotes(view(path)), " holds a NUL byte");
  }
  return std::string(view(path));
}

weft_status set_error(weft_error* error, weft_status status, std::string_view text) {
  weft_plugin_host->error_set(error, status, weft_str{text.data(), text.size()});
  return status;
}

template <typename Function>
weft_status guarded(weft_error* error, Function&& function) noexcept {
  try {
    function();
    return WEFT_OK;
  } catch (const weft::Error& failure) {
    return set_error(error, failure.status(), failure.what());
  } catch (const std::bad_alloc&) {
    return set_error(error, WEFT_RESOURCE_EXHAUSTED, "hugging_face: out of memory");
  } catch (const std::exception& failure) {
    return set_error(error, WEFT_INTERNAL, failure.what());
  } catch (...) {
    return set_error(error, WEFT_INTERNAL, "hugging_face: unknown exception");
  }
}

void require(const void* pointer, const char* what) {
  if (pointer == nullptr) hf::fail(WEFT_INVALID_ARGUMENT, what, " is null");
}

// --- reading

uint32_t recognises(const weft_checkpoint_io* /*io*/, weft_str path) {
  return hf::recognises(std::string(view(path))) ? 1 : 0;
}

weft_status open_reader(const weft_checkpoint_io* /*io*/, weft_str /*name*/, weft_str path,
                        weft_checkpoint_reader** own, weft_error* error) {
  return guarded(error, [&] {
    require(own, "the place for the reader");
    *own = new weft_checkpoint_reader{hf::CheckpointReader(checked_path(path))};
  });
}

void close_reader(weft_checkpoint_reader* reader) {
  delete reader;
}

uint64_t num_tensors(weft_checkpoint_reader* reader) {
  return reader == nullptr ? 0 : reader->reader.num_tensors();
}

weft_status describe(weft_checkpoint_reader* reader, uint64_t index, weft_tensor_entry* out,
                     weft_error* error) {
  return guarded(error, [&] {
    require(reader, "the reader");
    require(out, "the place for the tensor's entry");
    if (out->struct_size < kEntrySize) {
      hf::fail(WEFT_INVALID_ARGUMENT, "weft_tensor_entry.struct_size is ", out->struct_size,
               ", must be at least ", kEntrySize);
    }
    const hf::StoredTensor& tensor = reader->reader.tensor(index);
    out->name = {tensor.name.data(), tensor.name.size()};
    out->dtype = tensor.type->code;
    out->ndim = static_cast<uint32_t>(tensor.shape.size());
    std::copy(tensor.shape.begin(), tensor.shape.end(), out->shape);
  });
}

weft_status read(weft_checkpoint_reader* reader, uint64_t index, const int64_t* offset, const int64_t* extent,
                 void* destination, uint64_t size_bytes, weft_error* error) {
  return guarded(error, [&] {
    require(reader, "the reader");
    reader->reader.read(index, offset, extent, destination, size_bytes);
  });
}

weft_str metadata(weft_checkpoint_reader* reader, weft_str key) {
  const std::string* found = reader == nullptr ? nullptr : reader->reader.metadata(std::string(view(key)));
  return found == nullptr ? weft_str{nullptr, 0} : weft_str{found->data(), found->size()};
}

// --- writing

void require_kind(const weft_kv& option, uint32_t kind, const char* wanted) {
  if (option.kind != kind) hf::fail(WEFT_INVALID_ARGUMENT, "option ", view(option.key), " must be ", wanted);
}

bool truth(const weft_kv& option) {
  require_kind(option, WEFT_KIND_BOOL, "a bool");
  return option.integer != 0;
}

void set_option(hf::WriteOptions& options, const weft_kv& option) {
  constexpr std::string_view kMetadata = "metadata.";
  const std::string_view key = view(option.key);
  if (key == "shard") {
    options.shard = truth(option);
  } else if (key == "use_safetensors") {
    options.use_safetensors = truth(option);
  } else if (key == "size_per_shard") {
    require_kind(option, WEFT_KIND_INT, "an integer");
    if (option.integer < 1) {
      hf::fail(WEFT_INVALID_ARGUMENT, "option size_per_shard is ", option.integer, " MB, must be at least 1");
    }
    options.size_per_shard = static_cast<uint64_t>(option.integer);
  } else if (key == "prefix") {
    require_kind(option, WEFT_KIND_TEXT, "a text");
    options.prefix = view(option.text);
  } else if (key.starts_with(kMetadata)) {
    require_kind(option, WEFT_KIND_TEXT, "a text");
    const std::string name(key.substr(kMetadata.size()));
    if (name == "format")
      hf::fail(WEFT_INVALID_ARGUMENT, "metadata.format is \"pt\", which transformers asks for");
    options.metadata[name] = view(option.text);
  } else {
    hf::fail(WEFT_INVALID_ARGUMENT, "unknown option ", hf::in_quotes(key),
             "; there are shard, size_per_shard, prefix, use_safetensors, metadata.<key>");
  }
}

hf::WriteOptions parse_options(const weft_kv* options, uint64_t num_options) {
  if (num_options > 0) require(options, "the array of options");
  hf::WriteOptions parsed;
  for (uint64_t i = 0; i < num_options; ++i) {
    // None means the default, as a missing option does.
    if (options[i].kind != WEFT_KIND_NONE) set_option(parsed, options[i]);
  }
  return parsed;
}

hf::TensorEntry parse_entry(const weft_tensor_entry& entry) {
  hf::TensorEntry parsed;
  parsed.name = view(entry.name);
  parsed.type = hf::find_element_type(entry.dtype);
  if (parsed.type == nullptr) {
    hf::fail(WEFT_INVALID_ARGUMENT, "tensor ", hf::in_quotes(parsed.name), ": element type ", entry.dtype,
             " is unknown");
  }
  if (entry.ndim > WEFT_MAX_DIMS) {
    hf::fail(WEFT_INVALID_ARGUMENT, "tensor ", hf::in_quotes(parsed.name), ": ", entry.ndim,
             " dimensions, at most ", WEFT_MAX_DIMS);
  }
  parsed.shape.assign(entry.shape, entry.shape + entry.ndim);
  return parsed;
}

std::vector<hf::TensorEntry> parse_entries(const weft_tensor_entry* const* entries, uint64_t num_entries) {
  if (num_entries > 0) require(entries, "the array of entries");
  std::vector<hf::TensorEntry> parsed;
  for (uint64_t i = 0; i < num_entries; ++i) {
    require(entries[i], "an entry");
    if (entries[i]->struct_size < kEntrySize)
      hf::fail(WEFT_INVALID_ARGUMENT, "entry ", i, ": struct_size is ", entries[i]->struct_size,
               ", must be at least ", kEntrySize);
    parsed.push_back(parse_entry(*entries[i]));
  }
  return parsed;
}

// "safetensors" and "pytorch" say which files are written, as the option "use_safetensors" does.
void apply_name(std::string_view name, hf::WriteOptions& options) {
  if (name != kSafetensors && name != kPyTorch) return;
  const bool by_name = name == kSafetensors;
  if (options.use_safetensors.value_or(by_name) != by_name)
    hf::fail(WEFT_INVALID_ARGUMENT, "use_safetensors is ", by_name ? "false" : "true", ", but the format is ",
             name, "; change one of the two");
  options.use_safetensors = by_name;
}

weft_status create(const weft_checkpoint_io* /*io*/, weft_str name, weft_str path, const weft_kv* options,
                   uint64_t num_options, const weft_tensor_entry* const* entries, uint64_t num_entries,
                   weft_checkpoint_writer** own, weft_error* error) {
  return guarded(error, [&] {
    require(own, "the place for the writer");
    hf::WriteOptions parsed = parse_options(options, num_options);
    apply_name(view(name), parsed);
    *own = new weft_checkpoint_writer{
        {checked_path(path), std::move(parsed), parse_entries(entries, num_entries)}};
  });
}

weft_status write(weft_checkpoint_writer* writer, uint64_t index, const int64_t* offset,
                  const int64_t* extent, const void* source, uint64_t size_bytes, weft_error* error) {
  return guarded(error, [&] {
    require(writer, "the writer");
    writer->writer.write(index, offset, extent, source, size_bytes);
  });
}

weft_status commit(weft_checkpoint_writer* writer, weft_error* error) {
  return guarded(error, [&] {
    require(writer, "the writer");
    const std::unique_ptr<weft_checkpoint_writer> owned(writer);
    owned->writer.commit();
  });
}

void abandon(weft_checkpoint_writer* writer) {
  delete writer;
}

uint32_t owns(const weft_checkpoint_io* /*io*/, weft_str file, weft_str prefix) {
  return hf::FileNames{std::string(view(prefix))}.owns(view(file)) ? 1 : 0;
}

constexpr weft_checkpoint_io kTable = {
    sizeof(weft_checkpoint_io),
    nullptr,
    recognises,
    open_reader,
    close_reader,
    num_tensors,
    describe,
    read,
    metadata,
    create,
    write,
    commit,
    abandon,
    owns,
};

const weft_checkpoint_io* find(const weft_checkpoint_io_factory* /*factory*/, weft_str name) {
  const bool is_ours = view(name) == WEFT_PLUGIN_ID || view(name) == kSafetensors || view(name) == kPyTorch;
  return is_ours ? &kTable : nullptr;
}

constexpr weft_checkpoint_io_factory kFactory = {sizeof(weft_checkpoint_io_factory), find};

}  // namespace

static const void* get_factory(const weft_plugin*, weft_str id) {
  return view(id) == WEFT_FACTORY_CHECKPOINT_IO ? &kFactory : nullptr;
}
