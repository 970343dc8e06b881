#include "jinja/template.hpp"

#include "base/text.hpp"
#include "jinja/functions.hpp"
#include "jinja/parser.hpp"

namespace weft::jinja {

Template::Template(std::string_view source) : program_(std::make_unique<const Program>(parse(source))) {}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

bool Template::marks_generation() const {
  return program_->marks_generation;
}

Rendered Template::render(const Dict& variables, Limits& limits) const {
  const Limits::Rendering rendering(limits, variables);
  try {
    Namespaces namespaces;
    const auto scope = std::make_shared<Scope>();
    set_globals(*scope, namespaces);
    for (const auto& [name, value] : variables.items()) scope->set(name.text()->bytes(), value);
    Output output;
    run(program_->body, Place{std::make_shared<Scope>(scope), output, limits});
    return {std::move(output.text), std::move(output.generated)};
  } catch (const Error& error) {
    fail(error.status(), "line {} of the template: {}", limits.line(), error.what());
  }
}

Rendered Template::render(const Dict& variables) const {
  Limits limits;
  return render(variables, limits);
}

}  // namespace weft::jinja
