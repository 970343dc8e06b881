#include "command/job_files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>

#include "base/files.hpp"
#include "base/job_options.hpp"
#include "base/replaced_file.hpp"
#include "base/text.hpp"
#include "checkpoint/training_state.hpp"
#include "files/formats.hpp"
#include "opening/model_files.hpp"
#include "opening/model_state.hpp"
#include "text/text_files.hpp"
#include "tokenizer/folder.hpp"

namespace weft::command {

namespace fs = std::filesystem;

namespace {

constexpr const char* kStepFolder = "step-";

// Returns whether a save puts a file or folder of this name into a model folder, in place of what is there.
bool is_saved(const std::string& name) {
  constexpr const char* kNames[] = {"config.json",         kGenerationConfig,
                                    kPreprocessorConfig,   checkpoint::kStateFolder,
                                    "adapter_config.json", "adapter_model.safetensors"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         tokenizer::is_file_of_tokenizer(name) || checkpoint::is_weight_file(name, "");
}

// Returns whether a file of this name in a model folder is read: also weights with a prefix, and their index.
bool is_of_model(const std::string& name) {
  const std::string extension = fs::path(name).extension().string();
  return is_saved(name) || extension == ".safetensors" || extension == ".bin" || extension == ".pt" ||
         extension == ".pth" || (extension == ".json" && name.find(".index.") != std::string::npos);
}

bool is_regular(const fs::path& path, struct stat& status) {
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

// A file that exists and is about to be written.
struct JobFiles::Target {
  // Returns nothing for a path where no regular file is.
  static std::optional<Target> at(const fs::path& path) {
    Target target{path, without_links(path).filename(), {}};
    return is_regular(path, target.status) ? std::optional(std::move(target)) : std::nullopt;
  }
  // Whether the entry of a folder is this file. Large folders are listed without a look at each file: what is
  // neither a link nor has several names is known by its own.
  bool is(const fs::directory_entry& entry) const {
    std::error_code ignored;
    struct stat found = {};
    return (entry.is_symlink(ignored) || status.st_nlink > 1 || entry.path().filename() == name) &&
           ::stat(entry.path().c_str(), &found) == 0 && is_same_file(found, status);
  }

  fs::path path, name;
  struct stat status;
};

namespace {

// Calls `look` for the files below a folder, until it returns true.
void look_below(const fs::path& folder, bool recursively,
                const std::function<bool(const fs::directory_entry& file)>& look) {
  constexpr int kDeepest = 64;  // where links to folders make a loop
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (!entry->is_directory(error)) {
      if (look(*entry)) return;
    } else if (!recursively || entry->path().filename().string().starts_with('.') ||
               entry.depth() > kDeepest) {
      entry.disable_recursion_pending();
    }
  }
}

}  // namespace

JobFiles::JobFiles(const Settings& arguments) {
  using File = JobOption::File;
  for (const JobOption* option : job_options_of(arguments.user())) {
    const std::string& name = option->spec.name;
    if (!arguments.given(name)) continue;
    if (option->file == File::kResumes) resumes(arguments.called(name), arguments.text(name));
    if (option->file == File::kModel) reads_model(arguments.called(name), arguments.text(name));
    if (option->file == File::kReads) reads(arguments.called(name), arguments.text(name));
    if (option->file == File::kData)
      for (const std::string& word : arguments.words(name)) read_data(arguments.called(name), word);
  }
}

void JobFiles::resumes(const std::string& flag, const std::string& path) {
  const fs::path resumed = path;
  std::vector<Source> read = {{flag, resumed.string(), Kind::kResumed}};
  if (resumed.filename().string().starts_with(kStepFolder) && resumed.has_parent_path())
    read.push_back({flag, resumed.parent_path().string(), Kind::kResumed});
  sources_.insert(sources_.begin(), read.begin(), read.end());  // saves() looks at them first
}

// A word is a path or a pattern, by itself, with a weight (PATH=0.3) or with a name (NAME=PATH).
void JobFiles::read_data(const std::string& flag, const std::string& word) {
  std::error_code ignored;
  std::vector<std::string> paths = {word};
  if (const size_t first = word.find('='); first != std::string::npos && !fs::exists(word, ignored))
    paths.insert(paths.end(), {word.substr(0, word.rfind('=')), word.substr(first + 1)});
  for (const std::string& path : paths) {
    if (fs::exists(path, ignored)) {
      reads(flag, path);
      continue;
    }
    try {
      const data::TextFiles found = data::find_text_files(path, /*of_any_format=*/true);
      for (size_t i = 0; i < found.files.size(); ++i) reads(flag, found.path(i));
    } catch (const Error&) {  // whoever opens the data says what is wrong with it
    }
  }
}

void JobFiles::reads_options(const BoosterOptions& options) {
  const json values = json::parse(options.options, nullptr, /*allow_exceptions=*/false);
  if (!values.is_object()) return;
  for (const auto& [key, value] : values.items())
    if (struct stat status = {}; value.is_string() && is_regular(value.get<std::string>(), status))
      reads("-o " + key, value.get<std::string>());
}

void JobFiles::reads(const std::string& flag, const std::string& path) {
  sources_.push_back({flag, path});
}

void JobFiles::reads_model(const std::string& flag, const std::string& path) {
  std::error_code ignored;
  // The library of a class decides which files belong to its tokenizer.
  const bool has_all = fs::exists(fs::path(path) / "tokenizer_config.json", ignored) &&
                       tokenizer::find_vocabulary(path).empty();
  sources_.push_back({flag, path, has_all ? Kind::kFiles : Kind::kModel});
  if (fs::is_directory(path, ignored)) return;
  // Beside a configuration lies the one of the preprocessor, and beside an index lie the weights.
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  if (fs::path(path).filename().string().find(".index.") != std::string::npos)
    sources_.push_back({flag, folder.string(), Kind::kModel});
  else
    sources_.push_back({flag, (folder / kPreprocessorConfig).string()});
}

bool JobFiles::is_read(const Source& source, const fs::path& relative) {
  const std::string first = relative.begin()->string();
  switch (source.kind) {
    case Kind::kFiles:
      return !relative.filename().string().starts_with('.');
    case Kind::kModel:
      return is_of_model(first);
    case Kind::kResumed:
      return is_of_model(first) || first.starts_with(kStepFolder);
  }
  return false;
}

std::vector<JobFiles::Target> JobFiles::read_by(const Source& source, const std::vector<Target>& targets) {
  std::vector<Target> found;
  struct stat status = {};
  if (targets.empty() || ::stat(source.path.c_str(), &status) != 0) return found;
  if (!S_ISDIR(status.st_mode)) {
    std::copy_if(targets.begin(), targets.end(), std::back_inserter(found),
                 [&](const Target& target) { return is_same_file(target.status, status); });
    return found;
  }
  look_below(source.path, source.kind != Kind::kModel, [&](const fs::directory_entry& file) {
    for (const Target& target : targets)
      if (target.is(file) && is_read(source, file.path().lexically_relative(source.path)))
        found.push_back(target);
    return targets.size() == 1 && !found.empty();
  });
  return found;
}

void JobFiles::saves(const std::string& flag, const std::string& folder) {
  std::vector<Target> replaced;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    if (is_saved(entry.path().filename().string()))
      if (std::optional<Target> target = Target::at(entry.path())) replaced.push_back(std::move(*target));
  for (const Source& source : sources_) {  // those of --resume come first
    const std::vector<Target> found = read_by(source, replaced);
    if (found.empty()) continue;
    if (source.kind != Kind::kResumed)
      fail(WEFT_INVALID_ARGUMENT,
           "{} {} would replace {}, which this command reads ({} {}): name another folder", flag, folder,
           found.front().path.string(), source.flag, source.path);
    std::erase_if(replaced, [&](const Target& target) {
      return std::any_of(found.begin(), found.end(),
                         [&](const Target& of) { return is_same_file(of.status, target.status); });
    });
  }
  saves_.push_back({flag, folder, fs::weakly_canonical(fs::absolute(folder, ignored), ignored)});
}

void JobFiles::writes(const std::string& flag, const std::string& path) {
  const std::optional<Target> target = Target::at(path);
  std::error_code ignored;
  if (!target && fs::exists(path, ignored)) return;
  if (target)
    for (const Source& source : sources_)
      if (!read_by(source, {*target}).empty())
        fail(WEFT_INVALID_ARGUMENT,
             "{0} {1}: this command reads that file ({2} {3}), and would overwrite it: name another file for "
             "{0}",
             flag, path, source.flag, source.path);
  const fs::path place = without_links(path);
  if (std::find(place.begin(), place.end(), ".weft_cache") != place.end())
    fail(WEFT_INVALID_ARGUMENT, "{0} {1}: that folder has the token ids of data: name another file for {0}",
         flag, path);
  for (const Output& save : saves_) {
    const fs::path inside = place.lexically_relative(save.place);
    if (inside.empty() || *inside.begin() == ".." || (inside != "." && !is_saved(inside.begin()->string())))
      continue;
    fail(WEFT_INVALID_ARGUMENT, "{0} {1}: {2} {3} puts its own file there: name another file for {0}", flag,
         path, save.flag, save.path);
  }
  for (const Output& other : outputs_) {
    struct stat own = {};
    if (other.place != place && !(target && is_regular(other.path, own) && is_same_file(own, target->status)))
      continue;
    fail(WEFT_INVALID_ARGUMENT, "{} {} and {} {} are the same file: give each a file of its own", other.flag,
         other.path, flag, path);
  }
  outputs_.push_back({flag, path, place});
}

void JobFiles::writes_given(const Settings& arguments) {
  using File = JobOption::File;
  for (const File file : {File::kSaves, File::kWrites})
    for (const JobOption* option : job_options_of(arguments.user())) {
      const std::string& name = option->spec.name;
      if (option->file != file || !arguments.given(name)) continue;
      if (file == File::kSaves)
        saves(arguments.called(name), arguments.text(name));
      else
        writes(arguments.called(name), arguments.text(name));
    }
}

}  // namespace weft::command
