#include <set>

#include "unpickler.hpp"

namespace weft::hugging_face {

void Unpickler::push_global(std::string module, std::string name) {
  const bool is_rebuild =
      module == "torch._utils" && (name == "_rebuild_tensor_v2" || name == "_rebuild_parameter");
  const bool is_dict = module == "collections" && name == "OrderedDict";
  const bool is_storage = (module == "torch" || module == "torch.storage") && name.ends_with("Storage");
  if (!is_rebuild && !is_dict && !is_storage) {
    fail(WEFT_PERMISSION_DENIED, path_, ": the pickle asks for ", in_quotes(module + "." + name),
         ", but only tensors are read from pickles; nothing was run. Save the weights alone as safetensors");
  }
  push_new(Global{std::move(module), std::move(name)});
}

void Unpickler::reduce() {
  const auto* arguments = pop()->get_if<Tuple>();
  const auto* callable = pop()->get_if<Global>();
  if (arguments == nullptr || callable == nullptr)
    damaged("a call without a function or a tuple of arguments");
  if (callable->name == "OrderedDict" && arguments->items.empty()) {
    push_new(Dict{});
  } else if (callable->name == "_rebuild_tensor_v2") {
    push(rebuild_tensor(arguments->items));
  } else if (callable->name == "_rebuild_parameter" && !arguments->items.empty() &&
             arguments->items[0]->get_if<TensorPointer>() != nullptr) {
    push(arguments->items[0]);
  } else {
    damaged("a call of ", in_quotes(callable->module + "." + callable->name), " with ",
            arguments->items.size(), " arguments");
  }
}

// ("storage", torch.FloatStorage, key, location, number of elements)
void Unpickler::push_storage() {
  const auto* id = pop()->get_if<Tuple>();
  if (id == nullptr || id->items.size() != 5) damaged("a persistent id that is no storage");
  const auto* tag = id->items[0]->get_if<std::string>();
  const auto* global = id->items[1]->get_if<Global>();
  const auto* key = id->items[2]->get_if<std::string>();
  if (tag == nullptr || *tag != "storage" || global == nullptr || key == nullptr) {
    damaged("a persistent id that is no storage");
  }
  // The key is copied into every tensor of the storage; torch uses numbers.
  constexpr std::size_t kLongestKey = 200;
  if (key->size() > kLongestKey) damaged("a storage whose key has ", key->size(), " bytes");
  // The size of an untyped storage counts bytes, as in torch.load.
  const ElementType* type = global->name == "UntypedStorage" ? find_element_type(WEFT_U8)
                                                             : find_element_type_by_storage(global->name);
  if (type == nullptr) {
    fail(WEFT_UNIMPLEMENTED, path_, ": storage ", in_quotes(*key), " is a ",
         in_quotes(global->module + "." + global->name),
         ", an element type that Weft does not have (F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL)");
  }
  push_new(Storage{type, *key, integer_argument(id->items[4], "the size of a storage")});
}

// (storage, storage_offset, size, stride, requires_grad, backward_hooks[, metadata])
Value* Unpickler::rebuild_tensor(const std::vector<Value*>& arguments) {
  const auto* storage = arguments.size() < 6 ? nullptr : arguments[0]->get_if<Storage>();
  if (storage == nullptr || arguments.size() > 7) damaged("_rebuild_tensor_v2 without a storage");
  if (arguments.size() == 7) {
    const auto* flags = arguments[6]->get_if<Dict>();
    if (arguments[6]->get_if<None>() == nullptr && (flags == nullptr || !flags->items.empty())) {
      fail(WEFT_UNIMPLEMENTED, path_,
           ": a tensor has a conjugate or negative view; save a contiguous copy of it");
    }
  }
  auto tensor = std::make_unique<PickledTensor>();
  tensor->entry.type = storage->type;
  tensor->storage = storage->key;
  tensor->storage_elements = storage->elements;
  tensor->storage_offset = integer_argument(arguments[1], "a storage offset");
  tensor->entry.shape = integers_argument(arguments[2], "a shape");
  tensor->strides = integers_argument(arguments[3], "strides");
  if (tensor->entry.shape.size() != tensor->strides.size()) {
    damaged("a tensor of shape ", shape_text(tensor->entry.shape), " with strides ",
            shape_text(tensor->strides));
  }
  push_new(std::move(tensor));
  return pop();
}

int64_t Unpickler::integer_argument(const Value* value, const char* what) const {
  const auto* integer = value->get_if<int64_t>();
  if (integer == nullptr) damaged(what, " is ", value->kind());
  if (*integer < 0) damaged(what, " is ", *integer, ", which is negative");
  return *integer;
}

std::vector<int64_t> Unpickler::integers_argument(const Value* value, const char* what) const {
  const auto* tuple = value->get_if<Tuple>();
  if (tuple == nullptr) damaged(what, " is ", value->kind());
  if (tuple->items.size() > WEFT_MAX_DIMS) {
    fail(WEFT_UNIMPLEMENTED, path_, ": a tensor has ", tuple->items.size(), " dimensions, Weft has at most ",
         WEFT_MAX_DIMS);
  }
  std::vector<int64_t> integers;
  for (const Value* item : tuple->items) integers.push_back(integer_argument(item, what));
  return integers;
}

std::vector<PickledTensor> read_state_dict(Bytes pickle, const std::string& path) {
  Unpickler unpickler(pickle, path);
  const Value* top = unpickler.run();
  const auto* dict = top->get_if<Dict>();
  if (dict == nullptr)
    fail(WEFT_DATA_LOSS, path, ": holds ", top->kind(), " instead of a dict of tensors by name");
  std::vector<PickledTensor> tensors;
  std::set<std::string> names;
  for (const auto& [key, value] : dict->items) {
    const auto* name = key->get_if<std::string>();
    if (name == nullptr) fail(WEFT_DATA_LOSS, path, ": a tensor's name is ", key->kind(), ", must be a text");
    const auto* tensor = value->get_if<TensorPointer>();
    if (tensor == nullptr) {
      fail(WEFT_DATA_LOSS, path, ": ", in_quotes(*name), " is ", value->kind(),
           ", must be a tensor; save the state dict of the model alone");
    }
    if (!names.insert(*name).second)
      fail(WEFT_DATA_LOSS, path, ": tensor ", in_quotes(*name), " is there twice");
    tensors.push_back(**tensor);
    tensors.back().entry.name = *name;
  }
  return tensors;
}

}  // namespace weft::hugging_face
