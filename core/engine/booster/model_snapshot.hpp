// What a save of a model writes, and the folder that it goes into.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/folder.hpp"
#include "checkpoint/piece.hpp"
#include "weft/booster.hpp"

namespace weft {

// Throws INVALID_ARGUMENT for a size that is none.
checkpoint::WriteOptions write_options(const SaveOptions& options);

// The folder under way, of which the master has the place; every rank knows its path. Its methods are
// collective.
class SharedStaging {
 public:
  SharedStaging(const Communicator& ranks, const std::string& path, const std::string& prefix);
  const std::filesystem::path& path() const { return path_; }
  // A folder in it that all ranks write to.
  std::filesystem::path make_shared_folder(const char* name) const;
  void publish();

 private:
  Communicator ranks_;
  std::optional<checkpoint::StagedFolder> folder_;  // on the master
  std::filesystem::path path_;
};

// What a model folder holds beside training_state/, and how to write it. Collective.
struct ModelSnapshot {
  std::string config;
  std::string adapter_config;                   // of an adapted model
  std::vector<std::string> adapter_parameters;  // whose values are also in files of PEFT's
  checkpoint::WriteOptions options;
  checkpoint::Pieces pieces;

  ModelSnapshot(const Model& model, const SaveOptions& options, checkpoint::Pieces pieces);
  void write(const std::filesystem::path& folder, const Communicator& ranks) const;
  void write_adapter(const std::filesystem::path& folder, const Communicator& ranks) const;
  // At `path`: a folder, or one file by its extension, with nothing but the weights.
  void save(const std::string& path, const Communicator& ranks) const;
};

}  // namespace weft
