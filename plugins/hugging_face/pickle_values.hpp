// The values that the unpickler builds. An arena owns them, and they refer to each other by pointer, because
// a pickle can contain cycles.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "pickle.hpp"

namespace weft::hugging_face {

struct Value;

struct None {};
struct Global {
  std::string module, name;
};
struct Tuple {
  std::vector<Value*> items;
};
struct List {
  std::vector<Value*> items;
};
struct Dict {
  std::vector<std::pair<Value*, Value*>> items;
};
struct Storage {
  const ElementType* type;
  std::string key;
  int64_t elements;
};

using TensorPointer = std::unique_ptr<PickledTensor>;

struct Value {
  std::variant<None, bool, int64_t, double, std::string, Global, Tuple, List, Dict, Storage, TensorPointer>
      content;

  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&content);
  }
  template <typename T>
  T* get_if() {
    return std::get_if<T>(&content);
  }
  // Returns the type for messages: "an int".
  const char* kind() const {
    static constexpr const char* kKinds[] = {"None",   "a bool",    "an int",  "a float",
                                             "a text", "a global",  "a tuple", "a list",
                                             "a dict", "a storage", "a tensor"};
    return kKinds[content.index()];
  }
};

}  // namespace weft::hugging_face
