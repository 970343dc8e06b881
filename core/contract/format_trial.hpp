// A checkpoint format in a folder for temporary files, with saves of one small tensor.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "contract/scratch.hpp"
#include "files/format.hpp"

namespace weft::contract {

class FormatTrial {
 public:
  static constexpr int64_t kRows = 64, kColumns = 3;  // of the tensor "values"

  // `options` are those that the host passes to a save, as a JSON object. Throws INVALID_ARGUMENT for
  // another.
  FormatTrial(const std::string& name, const std::string& options);

  const checkpoint::Format& format() const { return format_; }
  const checkpoint::WriteOptions& options() const { return options_; }
  std::string path(const std::string& name) const { return scratch_.path(name); }
  std::string model() const { return path("model"); }  // the folder that saves go to

  void begin_anew() const;  // empties the folder
  // Writes the tensor, with this value in all elements.
  void save(float value) const { save_to(model(), value); }
  void save_to(const std::string& path, float value) const;
  // Return the value that was saved. Throw DATA_LOSS if there are other tensors, INTERNAL if it has two
  // values.
  float saved() const { return saved_in(model()); }
  float saved_in(const std::string& path) const;
  std::string expect_saved(float value) const;  // what is wrong, or ""

  // Return, in order, the paths of files below the folder, and the names in it.
  std::vector<std::string> files() const;
  std::vector<std::string> names() const;

  // Begins a save of the tensor by the functions of the table, with an entry that has one member more.
  std::unique_ptr<weft_checkpoint_writer, void (*)(weft_checkpoint_writer*)> create(
      const std::vector<weft_kv>& options) const;

 private:
  const checkpoint::Format& format_;
  const checkpoint::WriteOptions options_;
  const Scratch scratch_;
};

// An entry of a host whose struct has one member more.
struct GrownEntry {
  static constexpr uint64_t kMore = 0x5eed5eed5eed5eed;
  GrownEntry() { entry.struct_size = sizeof *this; }
  weft_tensor_entry entry{};
  uint64_t more = kMore;
};

// Returns the problem of a call that must be refused with this status: that it was not.
std::string refusal(weft_status wanted, const std::string& what, const std::function<void()>& call);

}  // namespace weft::contract
