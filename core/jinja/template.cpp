#include "jinja/template.hpp"

#include "base/text.hpp"
#include "jinja/functions.hpp"
#include "jinja/parser.hpp"

namespace weft::jinja {

void Limits::step() {
  constexpr size_t kMost = 200'000;
  if (++steps_ > kMost) fail(WEFT_RESOURCE_EXHAUSTED, "the template took {} steps and did not end", kMost);
}

void Limits::write(size_t bytes) {
  constexpr size_t kMost = size_t{64} << 20;
  bytes_ += bytes;
  if (bytes_ > kMost) fail(WEFT_RESOURCE_EXHAUSTED, "the template wrote {} MiB and did not end", kMost >> 20);
}

void Limits::enter_call() {
  constexpr size_t kMost = 64;
  if (++depth_ > kMost)
    fail(WEFT_RESOURCE_EXHAUSTED, "{} calls of the template are inside each other", kMost);
}

Template::Template(std::string_view source) : program_(std::make_unique<const Program>(parse(source))) {}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

bool Template::marks_generation() const {
  return program_->marks_generation;
}

Rendered Template::render(const Dict& variables) const {
  Namespaces namespaces;
  const auto scope = std::make_shared<Scope>();
  set_globals(*scope, namespaces);
  for (const auto& [name, value] : variables.items()) scope->set(name.text()->bytes(), value);
  Output output;
  Limits limits;
  run(program_->body, Place{std::make_shared<Scope>(scope), output, limits});
  return {std::move(output.text), std::move(output.generated)};
}

}  // namespace weft::jinja
