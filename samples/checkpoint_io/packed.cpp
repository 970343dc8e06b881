// The checkpoint format "packed": one file, "packed.weights" in a folder (packed_file.hpp).
#include <filesystem>
#include <mutex>

#include "packed_file.hpp"
#include "weft/checkpoint_io.h"
#include "weft/define_plugin.h"

static const void* get_factory(const weft_plugin*, weft_str id);
WEFT_DEFINE_PLUGIN(WEFT_TIER_C, "", get_factory)

namespace {

namespace fs = std::filesystem;
using namespace packed;

constexpr std::string_view kMagic = "WEFTPAK1";
constexpr const char* kFileName = "packed.weights";
constexpr uint64_t kLargestHead = 100 << 20;

// Runs a function, and turns what it throws into a status: no exception may reach the host.
template <typename Function>
weft_status guarded(weft_error* error, const Function& function) noexcept {
  const auto set = [&](weft_status status, const char* text) {
    weft_plugin_host->error_set(error, status, {text, std::strlen(text)});
    return status;
  };
  try {
    function();
    return WEFT_OK;
  } catch (const weft::Error& failure) {
    return set(failure.status(), failure.what());
  } catch (const std::bad_alloc&) {
    return set(WEFT_RESOURCE_EXHAUSTED, "packed: no memory");
  } catch (const std::exception& failure) {
    return set(WEFT_INTERNAL, failure.what());
  }
}

std::string_view view(weft_str text) {
  return {text.data == nullptr ? "" : text.data, text.size};
}

std::string file_of(std::string_view path) {
  if (path.empty() || path.find('\0') != std::string_view::npos)
    fail(WEFT_INVALID_ARGUMENT, "the path is no file name");
  const fs::path given(path);
  return (fs::is_directory(given) ? given / kFileName : given).string();
}

const Tensor& at(const Head& head, uint64_t index) {
  if (index >= head.tensors.size())
    fail(WEFT_OUT_OF_RANGE, "there is no tensor " + std::to_string(index) + ", there are " +
                                std::to_string(head.tensors.size()));
  return head.tensors[index];
}

}  // namespace

// --- reading

struct weft_checkpoint_reader {
  explicit weft_checkpoint_reader(const std::string& path) : file(path, O_RDONLY) {
    std::string magic(kMagic.size(), '\0'), bytes;
    uint64_t head_size = 0;
    const uint64_t begin = magic.size() + sizeof head_size;
    if (file.size() < begin) fail(WEFT_DATA_LOSS, path + " is shorter than the head of a packed file");
    file.read(0, magic.data(), magic.size());
    file.read(magic.size(), &head_size, sizeof head_size);
    if (magic != kMagic) fail(WEFT_DATA_LOSS, path + " is no packed file");
    if (head_size > kLargestHead || head_size > file.size() - begin)
      fail(WEFT_DATA_LOSS, path + " was truncated: its head has " + std::to_string(head_size) + " bytes");
    bytes.resize(head_size);
    file.read(begin, bytes.data(), head_size);
    head.unpack(bytes, begin + head_size, file.size(), path);
  }

  File file;
  Head head;
};

// --- writing

// The file under its temporary name, and which of its bytes were written.
struct weft_checkpoint_writer {
  weft_checkpoint_writer(std::string path, Head given)
      : target(std::move(path)),
        partial((fs::path(target).parent_path() / ("." + fs::path(target).filename().string() + ".partial"))
                    .string()),
        file(partial, O_RDWR | O_CREAT),
        head(std::move(given)) {
    file.lock();
    try {
      lay_out();
    } catch (...) {
      unlink(partial.c_str());
      throw;
    }
  }
  ~weft_checkpoint_writer() {
    if (!is_in_place) unlink(partial.c_str());
  }

  // Gives every tensor its place, and writes what stands before them.
  void lay_out() {
    const uint64_t head_size = head.pack(0).size();
    uint64_t end = kMagic.size() + sizeof head_size + head_size;
    for (Tensor& tensor : head.tensors) {
      tensor.at = end;
      end += tensor.bytes;
      written.emplace_back(tensor.bytes / element_bytes(tensor), false);
    }
    file.reserve(end);
    file.write(0, kMagic.data(), kMagic.size());
    file.write(kMagic.size(), &head_size, sizeof head_size);
    file.write(kMagic.size() + sizeof head_size, head.pack(end).data(), head_size);
  }

  void commit() {
    for (size_t i = 0; i < written.size(); ++i)
      for (const bool is_written : written[i])
        if (!is_written)
          fail(WEFT_FAILED_PRECONDITION,
               "elements of tensor " + head.tensors[i].name + " were never written");
    file.sync();
    if (rename(partial.c_str(), target.c_str()) != 0) fail_errno("cannot rename " + partial);
    is_in_place = true;
    const fs::path folder = fs::path(target).parent_path();
    File(folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY).sync();
  }

  std::string target, partial;
  File file;
  Head head;
  std::mutex mutex;
  std::vector<std::vector<bool>> written;  // a bit for each element
  bool is_in_place = false;
};

namespace {

Head head_of(const weft_kv* options, uint64_t num_options, const weft_tensor_entry* const* entries,
             uint64_t num_entries) {
  constexpr std::string_view kMetadata = "metadata.";
  Head head;
  for (uint64_t i = 0; i < num_options; ++i) {
    const std::string_view key = view(options[i].key);
    if (options[i].kind == WEFT_KIND_NONE) continue;  // the default, as if it were not there
    if (!key.starts_with(kMetadata) || options[i].kind != WEFT_KIND_TEXT)
      fail(WEFT_INVALID_ARGUMENT, "there is no option \"" + std::string(key) +
                                      "\"; all is in one file, and the options are metadata.<key> (text)");
    head.metadata[std::string(key.substr(kMetadata.size()))] = view(options[i].text);
  }
  std::set<std::string_view> names;
  for (uint64_t i = 0; i < num_entries; ++i) {
    const weft_tensor_entry& entry = *entries[i];
    if (entry.ndim > WEFT_MAX_DIMS) fail(WEFT_INVALID_ARGUMENT, "a tensor has too many dimensions");
    Tensor tensor{std::string(view(entry.name)), entry.dtype, {entry.shape, entry.shape + entry.ndim}};
    if (!set_bytes(tensor) || !names.insert(view(entry.name)).second)
      fail(WEFT_INVALID_ARGUMENT,
           "tensor \"" + tensor.name + "\" is there twice, or has an impossible type or shape");
    head.tensors.push_back(std::move(tensor));
  }
  return head;
}

uint32_t recognises(const weft_checkpoint_io*, weft_str path) {
  return guarded(nullptr, [&] {
           const File file(file_of(view(path)), O_RDONLY);
           std::string magic(kMagic.size(), '\0');
           file.read(0, magic.data(), magic.size());
           if (magic != kMagic) fail(WEFT_DATA_LOSS, "it is another file");
         }) == WEFT_OK;
}

weft_status open_reader(const weft_checkpoint_io*, weft_str, weft_str path, weft_checkpoint_reader** own,
                        weft_error* error) {
  return guarded(error, [&] { *own = new weft_checkpoint_reader(file_of(view(path))); });
}

weft_status describe(weft_checkpoint_reader* reader, uint64_t index, weft_tensor_entry* out,
                     weft_error* error) {
  return guarded(error, [&] {
    const Tensor& tensor = at(reader->head, index);
    out->name = {tensor.name.data(), tensor.name.size()};
    out->dtype = tensor.dtype;
    out->ndim = static_cast<uint32_t>(tensor.shape.size());
    std::copy(tensor.shape.begin(), tensor.shape.end(), out->shape);
  });
}

weft_status read(weft_checkpoint_reader* reader, uint64_t index, const int64_t* offset, const int64_t* extent,
                 void* destination, uint64_t size_bytes, weft_error* error) {
  return guarded(error, [&] {
    auto* next = static_cast<char*>(destination);
    each_run(at(reader->head, index), offset, extent, size_bytes, [&](uint64_t place, uint64_t size) {
      reader->file.read(place, next, size);
      next += size;
    });
  });
}

weft_str metadata(weft_checkpoint_reader* reader, weft_str key) {
  const auto found = reader->head.metadata.find(view(key));
  if (found == reader->head.metadata.end()) return {nullptr, 0};
  return {found->second.data(), found->second.size()};
}

weft_status create(const weft_checkpoint_io*, weft_str, weft_str path, const weft_kv* options,
                   uint64_t num_options, const weft_tensor_entry* const* entries, uint64_t num_entries,
                   weft_checkpoint_writer** own, weft_error* error) {
  return guarded(error, [&] {
    *own =
        new weft_checkpoint_writer(file_of(view(path)), head_of(options, num_options, entries, num_entries));
  });
}

weft_status write(weft_checkpoint_writer* writer, uint64_t index, const int64_t* offset,
                  const int64_t* extent, const void* source, uint64_t size_bytes, weft_error* error) {
  return guarded(error, [&] {
    const auto* next = static_cast<const char*>(source);
    const Tensor& tensor = at(writer->head, index);
    each_run(tensor, offset, extent, size_bytes, [&](uint64_t place, uint64_t size) {
      writer->file.write(place, next, size);
      next += size;
      const std::lock_guard lock(writer->mutex);
      const auto first = writer->written[index].begin() +
                         static_cast<std::ptrdiff_t>((place - tensor.at) / element_bytes(tensor));
      std::fill(first, first + static_cast<std::ptrdiff_t>(size / element_bytes(tensor)), true);
    });
  });
}

weft_status commit(weft_checkpoint_writer* writer, weft_error* error) {
  const weft_status status = guarded(error, [&] { writer->commit(); });
  delete writer;
  return status;
}

uint32_t owns(const weft_checkpoint_io*, weft_str file, weft_str prefix) {
  return prefix.size == 0 && view(file) == kFileName;
}

constexpr weft_checkpoint_io kFormat = {
    sizeof(weft_checkpoint_io),
    nullptr,
    recognises,
    open_reader,
    [](weft_checkpoint_reader* reader) { delete reader; },
    [](weft_checkpoint_reader* reader) -> uint64_t { return reader->head.tensors.size(); },
    describe,
    read,
    metadata,
    create,
    write,
    commit,
    [](weft_checkpoint_writer* writer) { delete writer; },
    owns,
};

const weft_checkpoint_io* find(const weft_checkpoint_io_factory*, weft_str name) {
  return view(name) == WEFT_PLUGIN_ID ? &kFormat : nullptr;
}

constexpr weft_checkpoint_io_factory kFactory = {sizeof(weft_checkpoint_io_factory), find};

}  // namespace

static const void* get_factory(const weft_plugin*, weft_str id) {
  return view(id) == WEFT_FACTORY_CHECKPOINT_IO ? &kFactory : nullptr;
}
