#include "contract/format_trial.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error_sink.hpp"
#include "base/text.hpp"
#include "device/tensors.hpp"

namespace weft::contract {

namespace {

namespace fs = std::filesystem;
using checkpoint::Reader;
using checkpoint::WriteOptions;
using checkpoint::Writer;

WriteOptions write_options(const std::string& format, const std::string& text) {
  WriteOptions options;
  options.format = format;
  options.metadata = {{"weft.note", "two words, 100 %\nand a line"}, {"empty", ""}};
  const nlohmann::json given = nlohmann::json::parse(text);
  for (const auto& [key, value] : given.items()) {
    if (key == "shard") {
      options.shard = value.get<bool>();
    } else if (key == "size_per_shard") {
      options.size_per_shard = value.get<int64_t>();
    } else if (key == "prefix") {
      options.prefix = value.get<std::string>();
    } else if (key == "use_safetensors") {
      options.use_safetensors = value.get<bool>();
    } else {
      fail(WEFT_INVALID_ARGUMENT,
           "-o {}: a save passes a format the options shard, size_per_shard, prefix and use_safetensors",
           key);
    }
  }
  return options;
}

}  // namespace

FormatTrial::FormatTrial(const std::string& name, const std::string& options)
    : format_(checkpoint::format_named(name)), options_(write_options(name, options)) {
  fs::create_directory(model());
}

void FormatTrial::begin_anew() const {
  fs::remove_all(model());
  fs::create_directory(model());
}

void FormatTrial::save_to(const std::string& path, float value) const {
  Writer writer(path, options_, {{"values", at::kFloat, {kRows, kColumns}}});
  writer.write(0, Box::whole({kRows, kColumns}), at::full({kRows, kColumns}, value));
  writer.commit();
}

float FormatTrial::saved_in(const std::string& path) const {
  const Reader reader(path, format_);
  const std::optional<size_t> index = reader.find("values");
  if (reader.entries().size() != 1 || !index)
    fail(WEFT_DATA_LOSS, "it holds {} tensors, must hold one, \"values\"", reader.entries().size());
  const at::Tensor values = reader.read(*index);
  const float first = values.numel() > 0 ? device::value_of<float>(values.flatten()[0]) : 0;
  if (!at::equal(values, at::full({kRows, kColumns}, first)))
    fail(WEFT_INTERNAL, "the tensor is part of one save and part of another");
  return first;
}

std::string FormatTrial::expect_saved(float value) const {
  const float found = saved();
  return found == value ? "" : fmt::format("the tensor has the value {}, must have {}", found, value);
}

std::vector<std::string> FormatTrial::files() const {
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(model()))
    if (!entry.is_directory()) found.push_back(entry.path().lexically_relative(model()).string());
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> FormatTrial::names() const {
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(model()))
    found.push_back(entry.path().filename().string());
  std::sort(found.begin(), found.end());
  return found;
}

std::unique_ptr<weft_checkpoint_writer, void (*)(weft_checkpoint_writer*)> FormatTrial::create(
    const std::vector<weft_kv>& options) const {
  const weft_checkpoint_io& io = *format_.io;
  GrownEntry grown;
  grown.entry.name = WEFT_STR("values");
  grown.entry.dtype = WEFT_F32;
  grown.entry.ndim = 2;
  grown.entry.shape[0] = kRows, grown.entry.shape[1] = kColumns;
  const weft_tensor_entry* const pointer = &grown.entry;
  weft_checkpoint_writer* writer = nullptr;
  const std::string path = model();
  ErrorSink error;
  error.check(io.create(&io, borrow(format_.name), borrow(path), options.data(), options.size(), &pointer, 1,
                        &writer, error));
  return {writer, io.abandon};
}

std::string refusal(weft_status wanted, const std::string& what, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.status() == wanted) return "";
    return fmt::format("{} is refused with the status {}, must be {}: {}", what, error.status(), wanted,
                       error.what());
  }
  return what + " was accepted";
}

}  // namespace weft::contract
