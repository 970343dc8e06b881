// Documents as samples of one length.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "text/chosen_documents.hpp"
#include "text/token_cache.hpp"
#include "weft/data/text.hpp"

namespace weft::data {

// The samples of one source, as open_text() describes them.
class TextSamples final : public Dataset {
 public:
  // Throws INVALID_ARGUMENT if there is no sample.
  TextSamples(TokenCache cache, std::string name, SampleOptions options);

  int64_t size() const override { return size_; }
  std::string name() const override { return name_; }
  std::string attention() const override;
  Batch get(const std::vector<int64_t>& indices) const override;

  int64_t documents() const { return static_cast<int64_t>(chosen().size()); }
  int64_t too_long() const { return chosen_.too_long; }  // documents that were left out
  int64_t of_other_part() const { return chosen_.of_other_part; }
  int64_t without_label() const { return without_label_; }  // samples that were left out
  const TokenCache& cache() const { return cache_; }
  // Returns the documents that are read, by their index in the cache.
  const std::vector<int64_t>& chosen() const { return chosen_.documents; }
  // Return the document of a sample that is not packed, and how many of its ids are no padding.
  int64_t document(int64_t sample) const { return padded_[static_cast<size_t>(sample)].document; }
  int64_t tokens(int64_t sample) const;

 private:
  // A row of a batch that is being filled. Those after the labels are null if samples have none.
  struct Row {
    int64_t *ids, *labels, *positions, *mask, *documents;
  };
  // Returns whether samples say what tokens attend to.
  bool has_documents() const {
    return options_.attention && options_.packing == Packing::kDocuments && !options_.overlap;
  }
  int64_t length(int64_t document) const { return cache_.begin(document + 1) - cache_.begin(document); }
  void count_padded();
  void count_packed();
  // Returns whether one of `count` ids of a document, those from `offset` on, has a label that counts. The
  // first id of a sample is predicted by nothing.
  bool predicts(int64_t document, int64_t offset, int64_t count, bool begins_sample) const;
  // Returns the same of a packed sample, by its index among all, with and without labels.
  bool predicts_packed(int64_t index) const;
  // Calls `take` with the document, offset and number of ids of each part of a packed sample, until it
  // returns false.
  void for_each_part(int64_t index,
                     const std::function<bool(int64_t document, int64_t offset, int64_t count)>& take) const;
  [[noreturn]] void refuse_without_samples() const;
  void fill_packed(int64_t index, const Row& row) const;
  void fill_padded(int64_t index, const Row& row) const;
  // Copies `count` ids of a document, those from `offset` on, to position `at` of a row.
  void copy(int64_t document, int64_t offset, int64_t count, int64_t at, const Row& row) const;

  const TokenCache cache_;
  const std::string name_;
  const SampleOptions options_;
  const ChosenDocuments chosen_;
  // Where each chosen document begins in the packed text. One more element is the end.
  std::vector<int64_t> begins_;
  struct Padded {
    int64_t document, offset;
  };
  std::vector<Padded> padded_;  // the samples, if they are not packed
  std::vector<int64_t> kept_;   // the packed samples with labels; empty if all have some
  int64_t size_ = 0, without_label_ = 0;
};

}  // namespace weft::data
