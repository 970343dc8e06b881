// `weft tokenizer`.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "command/arguments.hpp"
#include "command/command.hpp"
#include "command/job_files.hpp"
#include "host/launch/rank_signals.hpp"
#include "loader/mapped_file.hpp"
#include "text/documents.hpp"
#include "text/text_files.hpp"
#include "tokenizer/train.hpp"
#include "weft/tokenizer.hpp"

namespace weft::command {

namespace {

// Prints what `convert` makes of each line of stdin.
int convert_lines(
    const std::function<std::string(const std::string& line, const std::string& source)>& convert) {
  ignore_broken_pipes();
  struct stat input = {}, output = {};
  if (::fstat(STDIN_FILENO, &input) == 0 && ::fstat(STDOUT_FILENO, &output) == 0 && S_ISREG(output.st_mode) &&
      is_same_file(input, output))
    fail(WEFT_INVALID_ARGUMENT,
         "stdout is the file that stdin reads, which would never end: name another file for the output");
  std::string line;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    const std::string converted = convert(line, fmt::format("stdin: line {}", number)) + "\n";
    if (std::fwrite(converted.data(), 1, converted.size(), stdout) != converted.size()) break;
  }
  return 0;  // the command ends with an error if something could not be written
}

}  // namespace

int encode_text(const Settings& arguments) {
  const Tokenizer tokenizer = Tokenizer::open(arguments.text("model"));
  const bool special = arguments.flag("special");
  return convert_lines([&](const std::string& line, const std::string&) {
    return json(tokenizer.encode(line, special)).dump();
  });
}

int decode_ids(const Settings& arguments) {
  const Tokenizer tokenizer = Tokenizer::open(arguments.text("model"));
  const bool special = arguments.flag("special");
  return convert_lines([&](const std::string& line, const std::string& source) {
    const json ids = parse_json(line, source);
    if (!ids.is_array())
      fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be a list of ids: [1, 2, 3]", source, json_kind(ids));
    for (const json& id : ids)
      if (!id.is_number_integer())
        fail(WEFT_INVALID_ARGUMENT, "{} has {} in the list, must be an id", source, printable(id.dump(), 40));
    return tokenizer.decode(ids.get<std::vector<int64_t>>(), !special);
  });
}

namespace {

// Adds the texts of the records of a file.
void add_records(const std::string& path, const std::string& shown, tokenizer::TrainingTexts& texts) {
  const data::MappedFile file(path);
  for (const data::JsonStretch& stretch : data::record_stretches(file.bytes(), shown)) {
    data::Records records(file.bytes(), shown, stretch);
    while (data::at_record(records, shown, [&] {
      const std::optional<nlohmann::json> record = records.next();
      if (record)
        for (const std::string& text : data::texts_of_record(*record)) texts.add(text);
      return record.has_value();
    })) {
    }
  }
}

}  // namespace

int train_tokenizer(const Settings& arguments) {
  BpeTrainingOptions options;
  options.vocabulary_size = arguments.integer("vocab_size");
  options.min_frequency = arguments.integer("min_frequency");
  if (arguments.given("special_tokens")) options.special_tokens = arguments.words("special_tokens");
  std::vector<data::TextFiles> sources;
  for (const std::string& path : arguments.words("data")) {
    sources.push_back(data::find_text_files(path));
    const std::string left_out = data::line_of_left_out(sources.back());
    if (!left_out.empty()) std::fputs((left_out + "\n").c_str(), stderr);
  }
  const auto read = [&](tokenizer::TrainingTexts& texts) {
    for (const data::TextFiles& source : sources)
      for (size_t file = 0; file < source.files.size(); ++file)
        if (data::has_records(source.files[file]))
          add_records(source.path(file), source.shown(file), texts);
        else
          texts.add_file(source.path(file));
  };
  const std::string folder = arguments.text("output");
  JobFiles files(arguments);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    files.writes(arguments.called("output"), (std::filesystem::path(folder) / name).string());
  tokenizer::train_bpe_on(read, folder, options);
  const std::string line =
      fmt::format("{} tokens in {}\n", Tokenizer::open(folder).vocabulary_size(), folder);
  std::fputs(line.c_str(), stderr);
  return 0;
}

}  // namespace weft::command
