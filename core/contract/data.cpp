#include "contract/data.hpp"

#include <ATen/ops/equal.h>

#include <algorithm>
#include <random>
#include <thread>

#include "base/text.hpp"
#include "opening/library_data.hpp"
#include "weft/model.hpp"
#include "weft/nn/token_model.hpp"

namespace weft::contract {

namespace {

using data::Dataset;
using Indices = std::vector<int64_t>;

data::OpenRequest request_of(const std::string& path, const std::string& config) {
  data::OpenRequest request;
  request.paths = {path};
  request.note = [](const std::string&) {};
  if (config.empty()) return request;
  const Model model = Model::open(config);
  request.architecture = model.architecture();
  if (const nn::TokenModel* const tokens = nn::find_token_model(model.module())) {
    request.vocabularies = tokens->vocabularies();
    request.sequence_length = std::min<int64_t>(tokens->max_sequence_length(), 32);
  }
  if (Tokenizer::is_in(config)) request.tokenizer = Tokenizer::open(config);
  return request;
}

// Returns how two batches differ, or "".
std::string difference(const Batch& found, const Batch& expected) {
  for (const auto& [name, tensor] : expected) {
    const at::Tensor* const other = found.find(name);
    if (other == nullptr) return fmt::format("there is no \"{}\"", name);
    if (other->scalar_type() != tensor.scalar_type() || other->sizes() != tensor.sizes() ||
        !at::equal(*other, tensor))
      return fmt::format("\"{}\" is another", name);
  }
  for (const auto& [name, tensor] : found)
    if (expected.find(name) == nullptr) return fmt::format("\"{}\" is there, too", name);
  return "";
}

// Returns some samples of a data set, some of them twice.
Indices chosen_samples(const Dataset& dataset) {
  constexpr size_t kMost = 24;
  Indices chosen = {0, dataset.size() - 1};
  std::mt19937_64 random(7);
  while (chosen.size() < std::min<size_t>(kMost, 2 * static_cast<size_t>(dataset.size())))
    chosen.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(dataset.size())));
  return chosen;
}

std::vector<Batch> read_one_by_one(const Dataset& dataset, const Indices& samples, int64_t epoch) {
  std::vector<Batch> batches;
  for (const int64_t sample : samples) batches.push_back(dataset.get_in_epoch({sample}, epoch));
  return batches;
}

void check_fields(const Batch& batch, Findings& findings) {
  findings.look("a sample has fields", batch.begin() == batch.end() ? "it has none" : "");
  for (const auto& [name, tensor] : batch)
    findings.look(
        "each field has a row for each index",
        tensor.dim() >= 1 && tensor.size(0) == 1
            ? ""
            : fmt::format("\"{}\" of one sample has the shape ({})", name, fmt::join(tensor.sizes(), ", ")));
}

// Compares a batch of all samples, in an order in which some come twice, with the samples one by one.
void check_batch(const Dataset& dataset, const Indices& samples, const std::vector<Batch>& alone,
                 Findings& findings) {
  const Batch together = dataset.get_in_epoch(samples, 0);
  std::string problem;
  for (size_t i = 0; i < samples.size() && problem.empty(); ++i) {
    Batch row;
    for (const auto& [name, tensor] : together)
      if (tensor.dim() == 0 || tensor.size(0) != static_cast<int64_t>(samples.size()))
        problem = fmt::format("\"{}\" of {} samples has the shape ({})", name, samples.size(),
                              fmt::join(tensor.sizes(), ", "));
      else
        row.set(name, tensor.narrow(0, static_cast<int64_t>(i), 1));
    if (problem.empty()) problem = difference(row, alone[i]);
  }
  findings.look("a batch has the samples of its indices, in their order", problem);
}

void check_same(const Dataset& dataset, const Indices& samples, const std::vector<Batch>& expected,
                int64_t epoch, const char* rule, Findings& findings) {
  const std::vector<Batch> found = read_one_by_one(dataset, samples, epoch);
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::string problem = difference(found[i], expected[i]);
    findings.look(rule, problem.empty() ? "" : fmt::format("sample {}: {}", samples[i], problem));
  }
}

void check_threads(const Dataset& dataset, const Indices& samples, const std::vector<Batch>& expected,
                   Findings& findings) {
  std::vector<std::string> problems(4);
  std::vector<std::thread> threads;
  threads.reserve(problems.size());
  for (std::string& problem : problems)
    threads.emplace_back([&] {
      try {
        for (int round = 0; round < 10; ++round)
          for (size_t i = 0; i < samples.size(); ++i)
            if (const std::string other = difference(dataset.get_in_epoch({samples[i]}, 0), expected[i]);
                !other.empty())
              problem = fmt::format("sample {}: {}", samples[i], other);
      } catch (const std::exception& exception) {
        problem = exception.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& problem : problems) findings.look("several threads get the same samples", problem);
}

}  // namespace

void check_data(const std::string& name, const std::string& options, const std::string& path,
                const std::string& model, const Tell& tell) {
  if (path.empty())
    fail(WEFT_INVALID_ARGUMENT, "the checks of data sets need data: give --data with a path that {} reads",
         name);
  const auto open = [&] {
    return open_library_data(name, nlohmann::json::parse(options), request_of(path, model));
  };
  Findings findings;
  try {
    const std::shared_ptr<Dataset> dataset = open();
    const Indices samples = chosen_samples(*dataset);
    const std::vector<Batch> first = read_one_by_one(*dataset, samples, 0),
                             later = read_one_by_one(*dataset, samples, 3);
    for (const Batch& batch : first) check_fields(batch, findings);
    if (!findings.failed()) check_batch(*dataset, samples, first, findings);
    check_same(*dataset, samples, first, 0, "a sample is the same again", findings);
    check_same(*dataset, samples, later, 3, "a sample of an epoch is the same again", findings);
    const std::vector<Batch> plain = read_one_by_one(*dataset, samples, 0);
    for (size_t i = 0; i < samples.size(); ++i)
      findings.look("get() returns the samples of epoch 0", difference(dataset->get({samples[i]}), plain[i]));
    check_threads(*dataset, samples, first, findings);
    const std::shared_ptr<Dataset> again = open();
    findings.look("data that are opened again are the same",
                  again->size() == dataset->size()
                      ? ""
                      : fmt::format("they have {} samples, had {}", again->size(), dataset->size()));
    if (again->size() == dataset->size())
      check_same(*again, samples, first, 0, "data that are opened again are the same", findings);
    findings.look("runs to its end", "");
  } catch (const Error& error) {
    if (findings.checks().empty()) throw;
    findings.look("runs to its end", error.what());
  }
  for (const Check& check : findings.checks()) tell(check);
}

}  // namespace weft::contract
