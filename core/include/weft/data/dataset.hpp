// Data sets, samplers and loaders.
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

// Samples by index. Its functions are called from several threads.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // Returns these samples, stacked along the first dimension.
  virtual Batch get(const std::vector<int64_t>& indices) const = 0;
};

// The integers of a .bin file.
enum class TokenType { kUint16, kUint32 };

// Open a file as consecutive windows of `sequence_length` tokens: the ids and the labels of a model of
// tokens, int64, which are the same tensor, because a causal model shifts the labels itself. A shorter rest
// at the end is not used. The file is mapped. Throw NOT_FOUND, and INVALID_ARGUMENT for a folder, an empty
// file, one that ends within a token, and one shorter than a sample.
std::shared_ptr<Dataset> text(const std::string& path, int64_t sequence_length);  // bytes are tokens
std::shared_ptr<Dataset> tokens(const std::string& path, int64_t sequence_length,
                                TokenType type);  // little-endian
// Opens a .safetensors file of tensors named as the model's inputs. The first dimension of each counts
// samples. Integers become int64.
std::shared_ptr<Dataset> tensors(const std::string& path);
// Opens a file by its name: .bin is tokens, .safetensors tensors, and anything else text. Reads the ids of
// each field that `vocabularies` names and throws INVALID_ARGUMENT with the first one outside its vocabulary
// and its position.
std::shared_ptr<Dataset> open(const std::string& path, int64_t sequence_length, TokenType type,
                              const std::vector<Vocabulary>& vocabularies = {});

// The order in which samples are drawn: the indices of an epoch, the same on every rank.
class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual std::vector<int64_t> order(int64_t size, int64_t epoch) const = 0;
};
// Samplers in the order of the data set, and in an order that follows from `seed` and epoch.
std::shared_ptr<Sampler> sequential_sampler();
std::shared_ptr<Sampler> shuffling_sampler(int64_t seed);

// How a loader makes batches.
struct LoaderOptions {
  int64_t batch_size = 1;  // samples over all data-parallel ranks: a multiple of `ranks`
  int64_t rank = 0;        // coordinate on the data axis
  int64_t ranks = 1;
  bool shuffle = false;
  int64_t seed = 1024;
  bool drop_last = false;
  bool pin_memory = false;           // refused without a GPU
  int64_t num_workers = 0;           // threads that prefetch, two batches each
  std::shared_ptr<Sampler> sampler;  // replaces shuffle and seed
};

// Makes this rank's batches, epoch after epoch. Global batch k has samples [k B, (k+1) B) of the epoch's
// order, and rank r gets the r-th contiguous part. The parts of a short last batch differ by at most one
// sample; a rank that gets none runs the batch's first sample as a stand-in (Batch::empty), whose loss counts
// as zero: multiply a loss of your own by zero too. Copies share the position. Use it from one thread at a
// time.
class Loader {
 public:
  Loader() = default;
  Loader(std::shared_ptr<Dataset> dataset, LoaderOptions options);
  explicit operator bool() const { return state_ != nullptr; }

  int64_t batches_per_epoch() const;
  const LoaderOptions& options() const;
  const Dataset& dataset() const;
  // Returns a loader of the same batches for another rank, from the beginning; this one if it is that rank's.
  Loader for_rank(int64_t rank, int64_t ranks) const;

  // Gets the next batch. Returns false once at the end of an epoch, after which the next epoch begins.
  bool next(Batch& batch);

  // The epoch, and how many of its batches were handed out. After seek() the batches are those that followed
  // this position. seek() throws OUT_OF_RANGE for a batch that the epoch does not have.
  struct Position {
    int64_t epoch = 0;
    int64_t batch = 0;
  };
  Position position() const;
  void seek(Position position);

  // Iterates to the end of the epoch: for (const Batch& batch : loader).
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
