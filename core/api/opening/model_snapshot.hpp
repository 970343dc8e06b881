// The contents of a saved model, and the staged folder that it is written to.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "files/folder.hpp"
#include "files/piece.hpp"
#include "weft/booster.hpp"
#include "weft/tokenizer.hpp"

namespace weft {

// Converts the options of a save in a checkpoint format. Throws INVALID_ARGUMENT if the size per file is not
// positive.
checkpoint::WriteOptions write_options(const SaveOptions& options, const std::string& format);

// Returns a filter of names in a model folder that a save keeps, such as a tokenizer or step-N/. It replaces
// weights (whose names have `prefix`), configuration and training state.
std::function<bool(const std::filesystem::path& name)> kept_by_saves(const std::string& prefix);

// The folder of the averaged weights in a model folder.
inline constexpr const char* kAverageFolder = "ema";

// A staged folder that the master creates and publishes. Every rank knows its path. All methods but path()
// are collective.
class SharedStaging {
 public:
  SharedStaging(const Communicator& ranks, const std::string& path, const std::string& prefix);
  const std::filesystem::path& path() const { return path_; }
  // Creates a folder inside it that all ranks write to. Throws if some rank does not see it.
  std::filesystem::path make_shared_folder(const char* name) const;
  // Creates a folder inside it, which the master alone writes to, and returns its path on every rank.
  std::filesystem::path make_folder(const char* name) const;
  void publish();

 private:
  Communicator ranks_;
  std::optional<checkpoint::StagedFolder> folder_;  // on the master
  std::filesystem::path path_;
};

// The contents of a model folder beside training_state/. All methods are collective.
struct ModelSnapshot {
  std::string config;
  std::string generation_config;                // that of the folder the model was opened from, or empty
  std::string adapter_config;                   // adapter_config.json; empty without an adapter
  std::vector<std::string> adapter_parameters;  // also written to files that PEFT reads
  std::optional<Tokenizer> tokenizer;           // whose files are written too
  checkpoint::WriteOptions options;
  checkpoint::Pieces pieces;
  std::map<std::string, std::string> companions;  // files beside config.json, by name

  ModelSnapshot(const Model& model, const SaveOptions& options, const std::string& format,
                checkpoint::Pieces pieces);
  void write(const std::filesystem::path& folder, const Communicator& ranks) const;
  // The path by which a reader opens the weights that write() put there, whatever stands beside them. With a
  // prefix only the default format has one; check_weights_path() throws INVALID_ARGUMENT for another.
  std::string weights_in(const std::filesystem::path& folder) const;
  void check_weights_path() const;
  void write_adapter(const std::filesystem::path& folder, const Communicator& ranks) const;
  // Writes a folder, or only the weights as one file if `path` has the extension of a weight file.
  void save(const std::string& path, const Communicator& ranks) const;

 private:
  // Returns `pieces`, the tensors of nn::Model::constants(), and the buffers of nn::kept_buffers().
  checkpoint::Pieces all_pieces(const Communicator& ranks) const;

  State constants_;
};

}  // namespace weft
