// Jinja templates, as transformers renders them for chats: with trim_blocks and lstrip_blocks, loop controls
// and {% generation %} blocks, and without what changes lists or dicts.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/value.hpp"

namespace weft::jinja {

struct Program;

struct Rendered {
  Text text;
  // The begins and ends of what {% generation %} blocks wrote.
  std::vector<std::pair<size_t, size_t>> generated;
};

// Any number of threads may render at once.
class Template {
 public:
  // Throws INVALID_ARGUMENT that names the line for what is no template, and UNIMPLEMENTED for tags, filters
  // and tests that Weft does not know.
  explicit Template(std::string_view source);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  // Renders with these variables. Throws INVALID_ARGUMENT for what the template refuses by raise_exception
  // and for operations that values do not have, UNIMPLEMENTED for methods that Weft does not know, and
  // RESOURCE_EXHAUSTED for a template that takes too long or needs too much memory; the text names the line.
  // Renderings with the same limits count together.
  Rendered render(const Dict& variables, Limits& limits) const;
  Rendered render(const Dict& variables) const;
  // Returns whether the template has a {% generation %} block.
  bool marks_generation() const;

 private:
  std::unique_ptr<const Program> program_;
};

}  // namespace weft::jinja
