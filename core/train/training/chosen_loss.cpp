#include "training/chosen_loss.hpp"

#include <ATen/core/grad_mode.h>

#include <cmath>

#include "base/error_sink.hpp"
#include "base/text.hpp"

namespace weft {

namespace {

// Runs a function of the library.
template <class Call>
auto called(const std::string& name, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    fail(error.status(), "objective {}: {}", name, error.what());
  } catch (const std::exception& error) {
    fail(WEFT_INTERNAL, "objective {}: {}", name, text_of(error));
  }
}

std::vector<std::pair<std::string, uint32_t>> versions_of(const State& state) {
  std::vector<std::pair<std::string, uint32_t>> versions;
  for (const auto& [name, tensor] : state)
    versions.emplace_back(name, tensor.defined() ? tensor._version() : 0);
  return versions;
}

void require_unchanged(const std::string& objective, const char* what, const State& state,
                       const std::vector<std::pair<std::string, uint32_t>>& before) {
  for (const auto& [name, version] : before)
    if (const at::Tensor* const tensor = state.find(name); tensor->defined() && tensor->_version() != version)
      fail(WEFT_FAILED_PRECONDITION, "objective {} changed {} \"{}\" in place; compute with a copy",
           objective, what, name);
}

void check_term(const std::string& objective, const nn::LossTerm& term) {
  const auto wrong = [&](const std::string& problem) {
    fail(WEFT_FAILED_PRECONDITION, "objective {}: the term \"{}\" {}", objective, term.name, problem);
  };
  if (!term.sum.defined() || !term.sum.is_floating_point() || term.sum.numel() != 1)
    wrong("must be one element in floating point, the sum over the labels");
  if (at::GradMode::is_enabled() && !term.sum.requires_grad())
    wrong("has no gradient; compute it from the outputs, which must not be detached");
}

}  // namespace

std::vector<nn::LossCount> ChosenLoss::counts(const Batch& batch) const {
  std::vector<nn::LossCount> counts = called(name_, [&] { return loss_->counts(batch); });
  for (const nn::LossCount& term : counts)
    if (!(term.count >= 0) || std::isinf(term.count))
      fail(WEFT_FAILED_PRECONDITION, "objective {}: the term \"{}\" has {} labels, must have 0 or more",
           name_, term.name, term.count);
  return counts;
}

std::vector<nn::LossTerm> ChosenLoss::terms(const State& outputs, const Batch& batch,
                                            const std::vector<nn::LossCount>& counts) const {
  const auto of_outputs = versions_of(outputs), of_batch = versions_of(batch);
  std::vector<nn::LossTerm> terms = called(name_, [&] { return loss_->terms(outputs, batch); });
  require_unchanged(name_, "the output", outputs, of_outputs);
  require_unchanged(name_, "the field", batch, of_batch);
  const auto names = [](const auto& of) {
    std::vector<std::string> found;
    for (const auto& term : of) found.push_back(term.name);
    return found;
  };
  if (names(terms) != names(counts))
    fail(WEFT_FAILED_PRECONDITION, "objective {}: the terms are {}, but those of counts() are {}", name_,
         fmt::join(names(terms), ", "), fmt::join(names(counts), ", "));
  for (const nn::LossTerm& term : terms) check_term(name_, term);
  return terms;
}

}  // namespace weft
