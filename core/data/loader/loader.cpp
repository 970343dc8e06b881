#include <algorithm>
#include <limits>

#include "base/text.hpp"
#include "device/tensors.hpp"
#include "loader/prefetcher.hpp"
#include "weft/data/dataset.hpp"

namespace weft::data {

namespace {

using Order = std::shared_ptr<const std::vector<int64_t>>;

void check(const LoaderOptions& options) {
  const auto at_least = [](const char* name, int64_t got, int64_t least) {
    if (got < least)
      fail(WEFT_INVALID_ARGUMENT, "data loader: {} is {}, must be at least {}", name, got, least);
  };
  at_least("batch_size", options.batch_size, 1);
  at_least("ranks", options.ranks, 1);
  at_least("num_workers", options.num_workers, 0);
  if (options.rank < 0 || options.rank >= options.ranks) {
    fail(WEFT_INVALID_ARGUMENT, "data loader: rank is {}, must be 0 to {}", options.rank, options.ranks - 1);
  }
  if (options.batch_size % options.ranks != 0) {
    const int64_t below = options.batch_size / options.ranks * options.ranks;
    std::vector<int64_t> nearest;
    if (below > 0) nearest.push_back(below);
    if (below <= std::numeric_limits<int64_t>::max() - options.ranks)
      nearest.push_back(below + options.ranks);
    fail(WEFT_INVALID_ARGUMENT,
         "the batch of {} samples cannot be divided by the {} data-parallel ranks; --batch-size must be a "
         "multiple of {}, {} for example",
         options.batch_size, options.ranks, options.ranks, fmt::join(nearest, " or "));
  }
  if (options.sampler && options.shuffle) {
    fail(WEFT_INVALID_ARGUMENT,
         "data loader: both a sampler and shuffle were given; a sampler decides the order itself");
  }
  if (options.pin_memory && !device::pins_memory()) {
    fail(WEFT_FAILED_PRECONDITION,
         "data loader: pin_memory is true, but this process has no GPU to pin memory for; leave it false");
  }
}

}  // namespace

struct Loader::Shared {
  Shared(std::shared_ptr<Dataset> data, LoaderOptions given)
      : dataset(std::move(data)), options(std::move(given)) {
    if (!dataset) fail(WEFT_INVALID_ARGUMENT, "data loader: no data set was given");
    check(options);
    if (!options.sampler) options.sampler = usual_sampler();
    order = draw(0);
  }

  std::shared_ptr<Sampler> usual_sampler() const {
    if (!options.shuffle) return sequential_sampler();
    const int64_t size = dataset->size();
    if (size == 0 || dataset->sample_length(0) == 0) return shuffling_sampler(options.seed);
    std::vector<int64_t> lengths;
    for (int64_t index = 0; index < size; ++index) lengths.push_back(dataset->sample_length(index));
    return bucketing_sampler(options.seed, std::move(lengths), options.batch_size);
  }

  Order draw(int64_t epoch) const {
    const int64_t size = dataset->size();
    auto drawn = std::make_shared<const std::vector<int64_t>>(options.sampler->order(size, epoch));
    for (const int64_t index : *drawn) {
      if (index < 0 || index >= size) {
        fail(WEFT_OUT_OF_RANGE, "data loader: the sampler drew sample {} in epoch {}, but there are {}",
             index, epoch, size);
      }
    }
    if (batches(*drawn) == 0) {
      fail(WEFT_INVALID_ARGUMENT,
           "data loader: {} samples make no batch of {}{}; give more data or a smaller batch", drawn->size(),
           options.batch_size, options.drop_last ? " with drop_last" : "");
    }
    return drawn;
  }

  int64_t batches(const std::vector<int64_t>& drawn) const {
    const auto samples = static_cast<int64_t>(drawn.size());
    return samples / options.batch_size + (!options.drop_last && samples % options.batch_size != 0 ? 1 : 0);
  }

  // Returns which samples of a global batch this rank loads; none: it got none of a short batch.
  std::vector<int64_t> share(const std::vector<int64_t>& drawn, int64_t index) const {
    const int64_t begin = index * options.batch_size;
    const int64_t samples = std::min(options.batch_size, static_cast<int64_t>(drawn.size()) - begin);
    const int64_t each = samples / options.ranks, longer = samples % options.ranks;
    const int64_t first = begin + options.rank * each + std::min(options.rank, longer);
    const int64_t count = each + (options.rank < longer ? 1 : 0);
    return {drawn.begin() + first, drawn.begin() + first + count};
  }

  // Returns this rank's part of a global batch of an epoch.
  Batch fetch(const std::vector<int64_t>& drawn, int64_t epoch, int64_t index) const {
    const std::vector<int64_t> own = share(drawn, index);
    const auto begin = static_cast<size_t>(index * options.batch_size);
    Batch batch = dataset->get_in_epoch(own.empty() ? std::vector<int64_t>{drawn[begin]} : own, epoch);
    batch.empty = own.empty();
    if (options.pin_memory)
      for (auto& [name, tensor] : batch) tensor = tensor.pin_memory();
    return batch;
  }

  bool next(Batch& batch) {
    if (position.batch == batches(*order)) {
      seek({position.epoch + 1, 0});
      return false;
    }
    if (options.num_workers > 0 && !prefetcher) {
      prefetcher = std::make_unique<Prefetcher>(options.num_workers);
      prefetch();
    }
    batch = prefetcher ? prefetcher->take() : fetch(*order, position.epoch, position.batch);
    ++position.batch;
    return true;
  }

  void seek(Position to) {
    if (to.epoch < 0) fail(WEFT_OUT_OF_RANGE, "data loader: epoch is {}, must be at least 0", to.epoch);
    const Order drawn = to.epoch == position.epoch ? order : draw(to.epoch);
    if (to.batch < 0 || to.batch > batches(*drawn)) {
      fail(WEFT_OUT_OF_RANGE,
           "data loader: batch {} of epoch {} is asked for, but an epoch has {}; data or batch size are not "
           "those of the "
           "run that is resumed",
           to.batch, to.epoch, batches(*drawn));
    }
    order = drawn;
    position = to;
    if (prefetcher) prefetch();
  }

  void prefetch() {
    prefetcher->restart(
        [this, drawn = order, epoch = position.epoch](int64_t index) { return fetch(*drawn, epoch, index); },
        position.batch, batches(*order));
  }

  const std::shared_ptr<Dataset> dataset;
  LoaderOptions options;
  Order order;  // of the epoch
  Position position;
  std::unique_ptr<Prefetcher> prefetcher;  // last, because its threads use the members above
};

Loader::Loader(std::shared_ptr<Dataset> dataset, LoaderOptions options)
    : state_(std::make_shared<Shared>(std::move(dataset), std::move(options))) {}

Loader::Shared& Loader::shared() const {
  if (!state_) fail(WEFT_FAILED_PRECONDITION, "data loader: it has no data set");
  return *state_;
}

int64_t Loader::batches_per_epoch() const {
  return shared().batches(*shared().order);
}
const LoaderOptions& Loader::options() const {
  return shared().options;
}
Loader Loader::for_rank(int64_t rank, int64_t ranks) const {
  LoaderOptions own = options();
  if (own.rank == rank && own.ranks == ranks) return *this;
  own.rank = rank;
  own.ranks = ranks;
  if (own.shuffle) own.sampler = nullptr;  // it was created from the seed
  return Loader(shared().dataset, own);
}
Loader Loader::with_batch_size(int64_t batch_size) const {
  LoaderOptions own = options();
  own.batch_size = batch_size;
  if (own.shuffle) own.sampler = nullptr;  // it was created from the seed, and for batches of this size
  return Loader(shared().dataset, own);
}
const Dataset& Loader::dataset() const {
  return *shared().dataset;
}
bool Loader::next(Batch& batch) {
  return shared().next(batch);
}
std::vector<int64_t> Loader::samples() const {
  if (shared().position.batch == 0)
    fail(WEFT_FAILED_PRECONDITION, "data loader: no batch of this epoch was loaded yet");
  return shared().share(*shared().order, shared().position.batch - 1);
}
Loader::Position Loader::position() const {
  return shared().position;
}
void Loader::seek(Position position) {
  shared().seek(position);
}

}  // namespace weft::data
