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

// What a value takes beside itself, about.
inline std::size_t memory_of(const std::string& text) {
  return text.size();
}
inline std::size_t memory_of(const Global& global) {
  return global.module.size() + global.name.size();
}
inline std::size_t memory_of(const Tuple& tuple) {
  return tuple.items.size() * sizeof(Value*);
}
inline std::size_t memory_of(const Storage& storage) {
  return storage.key.size();
}
inline std::size_t memory_of(const TensorPointer& tensor) {
  return sizeof(*tensor) + tensor->storage.size() + 2 * tensor->strides.size() * sizeof(int64_t);
}
template <typename Content>
std::size_t memory_of(const Content& /*content*/) {
  return 0;
}

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
