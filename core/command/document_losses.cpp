#include "command/document_losses.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text.hpp"
#include "booster/running.hpp"
#include "device/tensors.hpp"
#include "job/row_losses.hpp"

namespace weft::command {

using nlohmann::json;

namespace {

// Returns the number of positions that hold `tokens` of `most`: halves of `most`, so that a short window does
// not cost as much as a long one, down to a multiple of what the ranks divide.
int64_t padded_length(int64_t tokens, int64_t most, const Mesh& mesh) {
  const int64_t divided = 2 * int64_t{mesh.sequence_size()} * int64_t{mesh.place(Mesh::tensor()).size};
  int64_t length = most;
  while (length % (2 * divided) == 0 && length / 2 >= std::max<int64_t>(tokens, 2)) length /= 2;
  return length;
}

// An order that was chosen before.
class FixedOrder final : public data::Sampler {
 public:
  explicit FixedOrder(std::vector<int64_t> order) : order_(std::move(order)) {}
  std::vector<int64_t> order(int64_t, int64_t) const override { return order_; }

 private:
  const std::vector<int64_t> order_;
};

// Returns the rows of a global batch that a loader gives to this rank.
OwnRows own_rows(int64_t all, const data::LoaderOptions& options) {
  const int64_t each = all / options.ranks, longer = all % options.ranks;
  return {options.rank * each + std::min(options.rank, longer), each + (options.rank < longer ? 1 : 0), all,
          each + (longer > 0 ? 1 : 0)};
}

// Returns the first `length` positions of the samples.
Batch cut(const Batch& batch, int64_t length) {
  Batch shorter;
  shorter.empty = batch.empty;
  for (const auto& [name, tensor] : batch) shorter.set(name, tensor.narrow(1, 0, length).contiguous());
  return shorter;
}

}  // namespace

TokenLoss& TokenLoss::operator+=(const TokenLoss& other) {
  sum += other.sum;
  tokens += other.tokens;
  return *this;
}

json TokenLoss::as_json() const {
  json line = {{"tokens", static_cast<int64_t>(tokens)}};
  if (!(tokens > 0)) return line;
  line["loss"] = sum / tokens;
  line["perplexity"] = std::exp(sum / tokens);
  return line;
}

std::vector<TokenLoss> document_losses(Job& job, const std::shared_ptr<data::TextDocuments>& documents,
                                       data::LoaderOptions options) {
  Training& training = training_of(job.model);
  const int64_t longest = documents->get({0}).begin()->second.size(1);
  std::vector<int64_t> order(static_cast<size_t>(documents->size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return documents->tokens(a) > documents->tokens(b); });
  options.sampler = std::make_shared<FixedOrder>(order);
  std::vector<TokenLoss> of_windows(order.size());
  auto next = order.begin();
  data::Loader loader(documents, options);
  for (const Batch& batch : loader) {
    const int64_t rows = std::min<int64_t>(options.batch_size, order.end() - next);
    const int64_t length = padded_length(documents->tokens(*next), longest, training.bindings().mesh());
    const at::Tensor losses = row_losses(training, cut(batch, length), own_rows(rows, options));
    const std::vector<double> values = device::values_of<double>(losses);
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row)
      of_windows[static_cast<size_t>(*next++)] = {values[2 * row], values[2 * row + 1]};
  }
  // In the order of the text, so that batches have no part in how the sums round.
  std::vector<TokenLoss> of_documents(static_cast<size_t>(documents->documents()));
  for (size_t window = 0; window < of_windows.size(); ++window)
    of_documents[static_cast<size_t>(documents->document(static_cast<int64_t>(window)))] +=
        of_windows[window];
  return of_documents;
}

std::vector<json> document_lines(const data::TextDocuments& documents, const std::vector<TokenLoss>& losses) {
  std::vector<json> lines;
  TokenLoss total;
  const std::vector<data::DocumentPlace> places = documents.places();
  for (size_t i = 0; i < losses.size(); ++i) {
    json line = losses[i].as_json();
    // The name of a file need not be UTF-8, as JSON must be.
    line["file"] = json::parse(json(places[i].file).dump(-1, ' ', false, json::error_handler_t::replace));
    if (places[i].line > 0) line["line"] = places[i].line;
    lines.push_back(std::move(line));
    total += losses[i];
  }
  json last = total.as_json();
  last["documents"] = documents.documents();
  last["samples"] = documents.size();
  lines.push_back(std::move(last));
  return lines;
}

std::string document_table(const std::vector<json>& lines) {
  std::string table = fmt::format("{:>10}  {:>8}  {:>12}  {}\n", "tokens", "loss", "perplexity", "document");
  for (const json& line : lines) {
    const auto number = [&](const char* key, int digits) {
      return line.contains(key) ? fmt::format("{:.{}f}", line.at(key).get<double>(), digits)
                                : std::string("-");
    };
    std::string place;
    if (line.contains("documents"))
      place = fmt::format("all {} documents ({} samples)", line.at("documents").get<int64_t>(),
                          line.at("samples").get<int64_t>());
    else
      place = printable(line.at("file").get<std::string>(), 4096);
    if (line.contains("line")) place += fmt::format(":{}", line.at("line").get<int64_t>());
    table += fmt::format("{:>10}  {:>8}  {:>12}  {}\n", line.at("tokens").get<int64_t>(), number("loss", 4),
                         number("perplexity", 3), place);
  }
  return table;
}

}  // namespace weft::command
