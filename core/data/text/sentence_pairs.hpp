// Pairs of sentences from documents, for next-sentence prediction.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/chosen_documents.hpp"
#include "text/text_encoder.hpp"
#include "text/token_cache.hpp"
#include "weft/data/dataset.hpp"

namespace weft::data {

class SampleRandom;

// The pairs of one source, as open_text() describes them. Positions in a document are positions in the cache.
class SentencePairs final : public Dataset {
 public:
  // `labels` is the field of the labels. The ids that `encoder` puts around documents are not part of pairs.
  // Throws INVALID_ARGUMENT if there is no pair, or a single document.
  SentencePairs(TokenCache cache, std::string name, const SampleOptions& options, const TextEncoder& encoder,
                PairFormat format, std::string labels);

  int64_t size() const override { return static_cast<int64_t>(stretches_.size()); }
  std::string name() const override { return name_; }
  std::string objective() const override;
  Batch get(const std::vector<int64_t>& indices) const override { return get_in_epoch(indices, 0); }
  Batch get_in_epoch(const std::vector<int64_t>& indices, int64_t epoch) const override;

  int64_t documents() const { return static_cast<int64_t>(chosen_.documents.size()); }
  int64_t too_long() const { return chosen_.too_long; }  // documents that were left out
  int64_t of_other_part() const { return chosen_.of_other_part; }
  int64_t without_label() const { return 0; }  // each pair has one

 private:
  struct Range {
    int64_t begin = 0, end = 0;
    int64_t size() const { return end - begin; }
  };
  struct Stretch {
    size_t text = 0;  // its index in texts_
    int64_t begin = 0;
  };
  struct Pair {
    Range first, second;
    bool follows = true;
  };
  // A row of a batch that is being filled.
  struct Row {
    int64_t *ids, *types, *mask;
  };

  int64_t checked_room() const;
  void find_texts(const TextEncoder& encoder);
  void cut_stretches();
  [[noreturn]] void refuse_single_document() const;
  Pair draw(int64_t sample, int64_t epoch) const;
  Range draw_elsewhere(size_t text, int64_t size, SampleRandom& random) const;
  // Draws one of the positions `first` to `last` behind a token that ends a sentence. Empty if there is none.
  std::optional<int64_t> draw_sentence(int64_t first, int64_t last, SampleRandom& random) const;
  void fill(const Pair& pair, Row row) const;

  const TokenCache cache_;
  const std::string name_, labels_;
  const SampleOptions options_;
  const PairFormat format_;
  const ChosenDocuments chosen_;
  const int64_t room_;              // of both sentences, in tokens
  std::vector<Range> texts_;        // the documents, without the ids around them
  std::vector<int64_t> totals_;     // how many ids the texts before each one have; one more is their sum
  std::vector<Stretch> stretches_;  // by sample
};

}  // namespace weft::data
