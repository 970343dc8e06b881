// The files that a verb reads and writes, told apart by what they are and not by their names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "command/arguments.hpp"

namespace weft::command {

// Refuses outputs that would destroy what the verb reads, or each other, by whatever path or link they are
// named. First add what is read, then what is written. Terminals, pipes and devices are no files.
class JobFiles {
 public:
  // Reads what the options name that are declared with "file" as reads, model, data or resumes.
  explicit JobFiles(const Settings& arguments);
  // Reads the files that options of a strategy name: a policy, a schedule.
  void reads_options(const BoosterOptions& options);
  // Reads a file, all files of a model folder, or weights and their index.
  void reads_model(const std::string& flag, const std::string& path);
  // Reads a file, or all files below a folder.
  void reads(const std::string& flag, const std::string& path);

  // Writes a model folder. Throws INVALID_ARGUMENT if a file that is read stands where the save puts one,
  // unless it is of --resume.
  void saves(const std::string& flag, const std::string& folder);
  // Writes a file. Throws INVALID_ARGUMENT if it is read, if it is another output, or if a save replaces it.
  void writes(const std::string& flag, const std::string& path);
  // Saves and writes what the options name that are declared with "file" as saves or writes.
  void writes_given(const Settings& arguments);

 private:
  enum class Kind { kFiles, kModel, kResumed };
  struct Source {
    std::string flag, path;
    Kind kind = Kind::kFiles;
  };
  struct Output {
    std::string flag, path;
    std::filesystem::path place;  // without links
  };
  struct Target;
  // Returns whether a file of the source's folder is read.
  static bool is_read(const Source& source, const std::filesystem::path& relative);
  // Returns those of the targets that the source reads.
  static std::vector<Target> read_by(const Source& source, const std::vector<Target>& targets);
  void read_data(const std::string& flag, const std::string& word);
  void resumes(const std::string& flag, const std::string& path);

  std::vector<Source> sources_;
  std::vector<Output> saves_, outputs_;
};

}  // namespace weft::command
