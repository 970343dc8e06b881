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

// A map-style data set: samples by index. Loaders call its functions from several threads.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // Returns the samples at `indices`, stacked along the first dimension: the same ones in every call. Before
  // training several ranks compare up to 256 of them.
  virtual Batch get(const std::vector<int64_t>& indices) const = 0;
  // Returns the samples as epoch `epoch` has them, for data that differ between epochs, such as masked
  // tokens. Depends on nothing but the arguments. get() returns those of epoch 0.
  virtual Batch get_in_epoch(const std::vector<int64_t>& indices, int64_t epoch) const {
    return get(indices);
  }
  // Returns how long a sample is, where samples of several lengths are padded to the longest of their batch;
  // otherwise 0. A loader that shuffles makes batches of samples of similar length.
  virtual int64_t sample_length(int64_t /*index*/) const { return 0; }
  // Returns the objective that makes the labels, with its settings. Ranks, and the runs before and after a
  // resume, must have the same. Empty: the data has its own labels.
  virtual std::string objective() const { return ""; }
  // Returns what tokens of packed documents attend to: "document" or "sample". Runs before and after a resume
  // should have the same. Empty: samples are not packed documents.
  virtual std::string attention() const { return ""; }
  // Returns where the samples come from, for messages: the path of a file. Empty: nowhere in particular.
  virtual std::string name() const { return ""; }
};

// The type of the tokens in a .bin file.
enum class TokenType { kUint16, kUint32 };

// Open a file as consecutive windows of `sequence_length` tokens. A sample has ids and labels
// (int64), which are the same tensor because a causal model shifts the labels itself. An incomplete window at
// the end is dropped. The file is memory-mapped. Throw NOT_FOUND, and INVALID_ARGUMENT for a folder, an empty
// file, a file that ends within a token, and a file that is shorter than one sample.
std::shared_ptr<Dataset> text(const std::string& path, int64_t sequence_length);  // bytes are tokens
std::shared_ptr<Dataset> tokens(const std::string& path, int64_t sequence_length,
                                TokenType type);  // little-endian
// Opens a .safetensors file whose tensors have the names of the model's inputs. The first dimension of each
// tensor counts samples. Integers are converted to int64.
std::shared_ptr<Dataset> tensors(const std::string& path);
// Opens a file by its extension: .bin holds tokens, .safetensors tensors, and any other file text, except
// that tables and compressed files, such as .csv and .gz, are refused with INVALID_ARGUMENT. Reads the
// ids of each field in `vocabularies`; throws INVALID_ARGUMENT naming the first id that is outside its
// vocabulary, and its position.
std::shared_ptr<Dataset> open(const std::string& path, int64_t sequence_length, TokenType type,
                              const std::vector<Vocabulary>& vocabularies = {});

// The order in which samples are drawn.
class Sampler {
 public:
  virtual ~Sampler() = default;
  // Returns a permutation of 0 ... size - 1 for this epoch, the same one on every rank.
  virtual std::vector<int64_t> order(int64_t size, int64_t epoch) const = 0;
};
// Return samplers in the order of the data set, and in a random order that depends on `seed` and the epoch.
std::shared_ptr<Sampler> sequential_sampler();
std::shared_ptr<Sampler> shuffling_sampler(int64_t seed);
// Returns a sampler in a random order in which each batch of `batch_size` samples has samples of similar
// length: samples are shuffled, every 50 batches are sorted by length, and the batches are shuffled.
// `lengths` has the length of each sample.
std::shared_ptr<Sampler> bucketing_sampler(int64_t seed, std::vector<int64_t> lengths, int64_t batch_size);

// How a loader makes batches.
struct LoaderOptions {
  int64_t batch_size = 1;  // samples over all data-parallel ranks: a multiple of `ranks`
  int64_t rank = 0;        // of this process among the data-parallel ranks
  int64_t ranks = 1;       // the number of data-parallel ranks
  bool shuffle = false;
  int64_t seed = 1024;
  bool drop_last = false;
  bool pin_memory = false;           // refused without a GPU
  int64_t num_workers = 0;           // threads that prefetch, two batches each
  std::shared_ptr<Sampler> sampler;  // replaces shuffle and seed
};

// Loads this rank's batches, epoch after epoch. With batch size B, global batch k consists of the samples
// [k B, (k + 1) B) of the epoch's order, split into contiguous ranges of equal size, one per rank. In a short
// last batch these ranges differ by at most one sample. A rank without a sample gets the first sample of the
// batch as a stand-in (Batch::empty), whose loss counts as zero; a loss function of your own must multiply by
// zero too. Copies of a Loader share their position. Not thread-safe.
class Loader {
 public:
  Loader() = default;
  Loader(std::shared_ptr<Dataset> dataset, LoaderOptions options);
  explicit operator bool() const { return state_ != nullptr; }

  int64_t batches_per_epoch() const;
  const LoaderOptions& options() const;
  const Dataset& dataset() const;
  // Returns a loader of the same batches for another rank, at the first batch; returns this loader if it is
  // already that rank's.
  Loader for_rank(int64_t rank, int64_t ranks) const;
  // Returns a loader of batches of another size, at the first batch. Throws INVALID_ARGUMENT as the
  // constructor does.
  Loader with_batch_size(int64_t batch_size) const;

  // Loads the next batch. Returns false once at the end of each epoch; the next call begins the next epoch.
  bool next(Batch& batch);

  // Returns the samples in this rank's part of the batch that next() returned last, by their index in the
  // data set. Throws FAILED_PRECONDITION before the first batch of an epoch.
  std::vector<int64_t> samples() const;

  // The number of the epoch, and the number of its batches that next() has returned. seek() continues with
  // the batch after a position; it throws OUT_OF_RANGE for a batch that the epoch does not have.
  struct Position {
    int64_t epoch = 0;
    int64_t batch = 0;
  };
  Position position() const;
  void seek(Position position);

  // Iterates over the rest of the epoch: for (const Batch& batch : loader).
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
