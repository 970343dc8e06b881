// `weft convert`. Converts one tensor at a time, so a model can be larger than memory.
#include <cstdio>
#include <filesystem>
#include <optional>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "checkpoint/training_state.hpp"
#include "command/arguments.hpp"
#include "command/command.hpp"
#include "command/job_files.hpp"
#include "files/folder.hpp"
#include "files/parts.hpp"
#include "host/launch/rank_signals.hpp"
#include "weft/torch/dtypes.hpp"

namespace weft::command {

namespace fs = std::filesystem;

namespace {

using Dtype = std::optional<at::ScalarType>;

Dtype wanted_dtype(const Settings& arguments) {
  return arguments.given("dtype") ? dtype_named(arguments.text("dtype")) : std::nullopt;
}

bool is_torch_file(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".bin" || extension == ".pt" || extension == ".pth";
}

checkpoint::WriteOptions write_options(const Settings& arguments, const fs::path& output) {
  checkpoint::WriteOptions options;
  options.shard = arguments.flag("shard");
  options.size_per_shard = arguments.integer("size_per_shard");
  options.prefix = arguments.text("prefix");
  options.format = arguments.text("format");
  if (options.format.empty()) {
    options.use_safetensors = !checkpoint::names_a_file(output) || !is_torch_file(output);
    return options;
  }
  try {
    checkpoint::format_named(options.format);
  } catch (const Error& error) {
    fail(error.status(), "{} is \"{}\": {}", arguments.called("format"), printable(options.format, 80),
         error.what());
  }
  return options;
}

void write_weights(const checkpoint::Reader& reader, const std::string& path, Dtype dtype,
                   checkpoint::WriteOptions options) {
  if (const auto optimizer = reader.metadata(checkpoint::kOptimizerKey))
    options.metadata[checkpoint::kOptimizerKey] = *optimizer;
  std::vector<checkpoint::Entry> entries = reader.entries();
  for (checkpoint::Entry& entry : entries)
    if (dtype && at::isFloatingType(entry.dtype)) entry.dtype = *dtype;
  checkpoint::Writer writer(path, options, entries);
  for (size_t i = 0; i < entries.size(); ++i) writer.write(i, Box::whole(entries[i].shape), reader.read(i));
  writer.commit();
}

// Copies the files beside the weights, such as config.json and a tokenizer. Writes `dtype` into config.json.
void copy_other_files(const fs::path& from, const fs::path& to, Dtype dtype) {
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || name.starts_with(".") || checkpoint::is_weight_file(name, "")) continue;
    fs::remove(to / name);  // when a folder is converted in place, this is a hard link to the same file
    if (name != "config.json" || !dtype) {
      fs::copy_file(entry.path(), to / name);
      continue;
    }
    json config = parse_json(read_file(entry.path(), 1 << 24), entry.path().string());
    for (const char* key : {"torch_dtype", "dtype"})
      if (config.contains(key)) config[key] = c10::getDtypeNames(*dtype).first;
    checkpoint::write_file(to / name, config.dump(2) + "\n");
  }
}

void copy_training_state(const fs::path& from, const fs::path& to, int64_t parts) {
  fs::create_directory(to);
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    const bool is_part = name == "index.json" || name.starts_with("part-");
    if (entry.is_regular_file() && !name.starts_with(".") && (parts == 0 || !is_part))
      fs::copy_file(entry.path(), to / name);
  }
  if (parts > 0)
    checkpoint::write_parts(to.string(), static_cast<int>(parts), checkpoint::PartsReader(from.string()));
}

// Throws INVALID_ARGUMENT if the output would lack a training state that the input has.
void check_training_state(const Settings& arguments, bool has_state, const std::string& input, bool to_file) {
  const bool weights_only = arguments.flag("weights_only");
  if (arguments.given("parts") && (!has_state || to_file))
    fail(WEFT_INVALID_ARGUMENT, "--parts divides a training state into files, but {}",
         has_state ? "the output is a single file of weights; give a folder"
                   : input + " has none; leave --parts out");
  if (!has_state || weights_only) return;
  if (to_file)
    fail(WEFT_INVALID_ARGUMENT,
         "{} holds a training state, which a single file of weights cannot hold: give a folder, or "
         "--weights-only to leave it out",
         input);
  if (arguments.given("dtype"))
    fail(WEFT_INVALID_ARGUMENT,
         "{} holds a training state, which fits its weights in their own dtype only: leave --dtype out, or "
         "give --weights-only to leave the training state out",
         input);
}

// Throws if the output is a file that is read. A folder can be converted in place.
void check_output(const Settings& arguments, const fs::path& input, const fs::path& output) {
  JobFiles files(arguments);
  files.reads_model("INPUT", input.string());
  std::error_code ignored;
  if (checkpoint::names_a_file(output))
    files.writes("OUTPUT", output.string());
  else if (!fs::equivalent(input, output, ignored))
    files.saves("OUTPUT", output.string());
}

}  // namespace

int convert(const Settings& arguments) {
  ignore_broken_pipes();
  const fs::path input = arguments.text("input"), output = arguments.text("output");
  const Dtype dtype = wanted_dtype(arguments);
  const checkpoint::WriteOptions options = write_options(arguments, output);
  const fs::path state = input / checkpoint::kStateFolder;
  const bool to_file = checkpoint::names_a_file(output), has_state = fs::is_directory(state);
  check_training_state(arguments, has_state, input.string(), to_file);
  check_output(arguments, input, output);
  const checkpoint::Reader reader(input.string(), arguments.text("checkpoint_io"));
  if (to_file) {
    write_weights(reader, output.string(), dtype, options);
  } else {
    checkpoint::StagedFolder folder(output, [&](const fs::path& name) {
      return name != checkpoint::kStateFolder && !checkpoint::is_weight_file(name.string(), options.prefix);
    });
    write_weights(reader, folder.path().string(), dtype, options);
    if (fs::is_directory(input)) copy_other_files(input, folder.path(), dtype);
    if (has_state && !arguments.flag("weights_only"))
      copy_training_state(state, folder.path() / checkpoint::kStateFolder, arguments.integer("parts", 0));
    folder.publish();
  }
  const std::string line =
      fmt::format("{} tensors from {} to {}\n", reader.entries().size(), input.string(), output.string());
  std::fputs(line.c_str(), stderr);  // fmt::print would throw if the message cannot be written
  return 0;
}

}  // namespace weft::command
