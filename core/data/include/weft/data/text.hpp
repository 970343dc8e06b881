// Text as people have it: files, JSON lines and folders, tokenized once and packed into sequences.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/data/dataset.hpp"
#include "weft/data/part.hpp"
#include "weft/tokenizer.hpp"
#include "weft/world.hpp"

namespace weft::data {

// Where text comes from. `path` is a file, a folder (all its files with the extensions .txt, .text, .md,
// .rst, .json, .jsonl, .jsonlines, .ndjson, .csv and .tsv in any case, in the order of their names, also in
// folders below; hidden ones are left out), or a pattern of file names, such as "books/*.jsonl". A file is
// one document, except for the last six, where each line is one, or each element if the file is one array, or
// each row of a table, whose first row has the names of its columns (RFC 4180; tabs between the fields of
// .tsv):
//   {"text": ...}
//   {"prompt": ..., "completion": ...}                 the labels are those of the completion alone
//   {"messages": [{"role": ..., "content": ...}, ...]} in the model's chat template; the labels are those of
//                                                      the assistant's turns. Not in tables
struct TextSource {
  std::string path;
  // The share of this source in a mixture. All sources of a mixture have a weight, or none has.
  std::optional<double> weight;
};

// How documents become samples of one length.
enum class Packing {
  kDocuments,  // one after the other; positions begin again with each document, labels cross no border
  kStream,     // one after the other, as a single text
  kNone,       // each in samples of its own, with padding
};

// Which tokens of its sample one of a packed document attends to.
enum class PackedAttention {
  kDocument,  // those of its document
  kSample,    // also those of the documents before it
};

// How text is read and divided into samples.
struct TextOptions {
  int64_t sequence_length = 0;  // of a sample, in tokens
  Packing packing = Packing::kDocuments;
  bool drop_long_documents = false;  // leave out documents that are longer than a sample; otherwise cut them
  // The share of the documents that are held out, from 0 to less than 1, and the part to read. The seed and
  // the document's index in its source decide which: a longer file keeps the parts of the documents before.
  double held_out = 0;
  Part part = Part::kAll;
  int64_t seed = 1024;             // also decides which samples a mixture takes
  bool skip_broken_lines = false;  // otherwise a line or element that is not as TextSource says is an error
  bool labels = true;              // false: for an objective that makes labels from the ids
  // If it is not empty, samples are pairs for next-sentence prediction, and this is the field of their labels
  // ("next_sentence_label"). Needs packing kDocuments, the default, and labels false.
  std::string sentence_labels;
  bool positions = false;  // whether the model reads positions
  // With Packing::kDocuments samples have document_ids, which say this. Empty: the model does not read them.
  std::optional<PackedAttention> attention;
  // Whether the model's encoder reads a source and its decoder predicts a target.
  bool source_and_target = false;
  int64_t vocabulary = 0;  // of the model, which must have all ids of the tokenizer; 0: not known
  int64_t threads = 0;     // that tokenize; 0: as many as the machine runs at once
  // How long another process that tokenizes the same source may make no progress while this one waits for it.
  std::chrono::milliseconds timeout = kDefaultTimeout;
  // Called on the thread of the caller while a source is tokenized, with the bytes that are done.
  std::function<void(const std::string& source, int64_t done, int64_t total)> progress;
  // Called with what should be known of a source: how many lines or documents were left out, where its ids
  // are kept if not beside the data, and for which process this one waits.
  std::function<void(const std::string& note)> note;
};

// Opens text for a model that has `tokenizer`. Documents have the ids around them that the tokenizer adds to
// one sequence, and its end-of-sequence id behind them; a chat has what its template says.
//
// Samples have ids and labels (T), with Packing::kNone an attention mask, positions if the model reads them
// and they are not 0 ... T - 1, and of packed documents document ids if TextOptions::attention is set. Packed
// documents fill samples without gaps: a sample begins where the one before it ends, positions begin again
// there too, and an incomplete one at the end is dropped. Padding is on the side that tokenizer_config.json
// says. A sample without a label is left out.
//
// With `source_and_target`, a prompt with its completion and each turn of an assistant with what is before it
// are samples: ids and attention mask of the source, labels of the target (T each), which are encoded apart
// and padded.
//
// Without weights the samples of all sources follow each other. With weights an epoch has as many samples as
// all sources together, and of each source its share: of a small one some samples several times, of a large
// one other samples in each epoch. The seed and the epoch decide which.
//
// With `sentence_labels` a sample is a pair A, B as the tokenizer joins two sequences, with padding: ids,
// attention mask and token types (T), and a label, 0 if B follows A in its document, or 1, for half of the
// samples, if B is from another document of the source. Documents are cut into stretches that fill a sample.
// A is the begin of a stretch, up to the end of a sentence, and B either the rest of it or, in the same
// number of tokens, a part of another document that begins behind the end of a sentence. Sentences end with
// one of . ! ? and their full-width forms; a stretch without one is cut anywhere. The cut, the label and the
// other document, which is drawn by its length, depend on the seed, the epoch and the sample.
//
// The ids are kept in a file in ".weft_cache" beside the data, or below $XDG_CACHE_HOME/weft or ~/.cache/weft
// where that folder cannot be written to or another user may have made what is there, and memory-mapped. It
// is made again after a change of a file, the tokenizer or the options, and if it is damaged; processes that
// need the same one wait for the first.
//
// Throws NOT_FOUND for a path without files; INVALID_ARGUMENT naming the file and line for what is not
// UTF-8 or not as TextSource says, for a file whose name tells another format, such as .gz, for a tokenizer
// with ids that the model does not have, and for sources without documents or with fewer tokens than a
// sample, and for pairs of a source with one document or of a tokenizer that puts no token between two
// sequences; UNAVAILABLE naming a process that tokenizes the same source and makes no progress for `timeout`;
// UNIMPLEMENTED for messages with a chat template of which Weft does not know a part.
std::shared_ptr<Dataset> open_text(const std::vector<TextSource>& sources, const Tokenizer& tokenizer,
                                   const TextOptions& options);
// Opens text whose bytes are the tokens, for a model with a vocabulary of 256, without ids around documents.
std::shared_ptr<Dataset> open_bytes(const std::vector<TextSource>& sources, const TextOptions& options);

}  // namespace weft::data
