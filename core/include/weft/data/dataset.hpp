// Data sets and loaders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "weft/state.hpp"
#include "weft/vocabulary.hpp"

namespace weft::data {

// Samples by index. Safe from several threads.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // The samples stacked along the first dimension.
  virtual Batch get(const std::vector<int64_t>& indices) const = 0;
};

enum class TokenType { kUint16, kUint32 };

// Consecutive windows of `sequence_length` tokens as the ids and the labels of a model of tokens (int64, the
// same tensor: a causal model shifts them itself); what is left at the end is not used. The file is mapped,
// not read. Throws NOT_FOUND, and INVALID_ARGUMENT for a folder, an empty file, one that ends within a token
// or is shorter than one sample.
std::shared_ptr<Dataset> text(const std::string& path, int64_t sequence_length);  // bytes are tokens
std::shared_ptr<Dataset> tokens(const std::string& path, int64_t sequence_length,
                                TokenType type);  // little-endian
// Tensors under the names of the model's inputs; the first dimension of each counts samples. Integers become
// int64.
std::shared_ptr<Dataset> tensors(const std::string& path);
// By the file's name: .bin tokens, .safetensors tensors, otherwise text. Reads through the ids of each field
// that `vocabularies` names and throws INVALID_ARGUMENT with the first one outside its vocabulary and its
// position.
std::shared_ptr<Dataset> open(const std::string& path, int64_t sequence_length, TokenType type,
                              const std::vector<Vocabulary>& vocabularies = {});

// The order in which samples are drawn: the indices of one epoch, the same on every rank.
class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual std::vector<int64_t> order(int64_t size, int64_t epoch) const = 0;
};
std::shared_ptr<Sampler> sequential_sampler();
std::shared_ptr<Sampler> shuffling_sampler(int64_t seed);  // a permutation by seed and epoch

struct LoaderOptions {
  int64_t batch_size = 1;  // samples over all data-parallel ranks: a multiple of `ranks`
  int64_t rank = 0;        // coordinate on the data axis
  int64_t ranks = 1;
  bool shuffle = false;
  int64_t seed = 1024;
  bool drop_last = false;
  bool pin_memory = false;           // refused where there is no GPU
  int64_t num_workers = 0;           // threads that fetch ahead, two batches each
  std::shared_ptr<Sampler> sampler;  // instead of shuffle and seed
};

// Batches of one epoch after another. Global batch k is samples [k B, (k+1) B) of the epoch's order; rank r
// takes the r-th contiguous part. A short last batch splits into parts that differ by at most one; a rank
// without any gets the batch's first sample as a stand-in (Batch::empty), whose loss Weft multiplies by zero:
// so does a loss of your own. Copies share the position. One thread at a time.
class Loader {
 public:
  Loader() = default;
  Loader(std::shared_ptr<Dataset> dataset, LoaderOptions options);
  explicit operator bool() const { return state_ != nullptr; }

  int64_t batches_per_epoch() const;
  const LoaderOptions& options() const;
  const Dataset& dataset() const;
  // The same batches for another rank, from the beginning; this loader itself if it is that rank's.
  Loader for_rank(int64_t rank, int64_t ranks) const;

  // The next batch; after an epoch's last one false once, and the next epoch begins.
  bool next(Batch& batch);

  // Where it stands: batches handed out of this epoch. Restoring it repeats exactly what would have followed.
  // Throws OUT_OF_RANGE for a batch that the epoch does not have.
  struct Position {
    int64_t epoch = 0;
    int64_t batch = 0;
  };
  Position position() const;
  void seek(Position position);

  // for (const Batch& batch : loader) runs to the end of the epoch.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = const Batch*;
    using reference = const Batch&;
    Iterator() = default;
    explicit Iterator(Loader* loader) : loader_(loader) { ++*this; }
    const Batch& operator*() const { return batch_; }
    Iterator& operator++() {
      if (loader_ && !loader_->next(batch_)) loader_ = nullptr;
      return *this;
    }
    bool operator==(const Iterator& other) const { return loader_ == other.loader_; }

   private:
    Loader* loader_ = nullptr;
    Batch batch_;
  };
  Iterator begin() { return Iterator(this); }
  Iterator end() { return Iterator(); }

 private:
  struct Shared;
  Shared& shared() const;
  std::shared_ptr<Shared> state_;
};

}  // namespace weft::data
