/* Operations that replace the matrix product of a linear layer, y = x W^T + b, by a forward and a backward of
 * the library. The engine makes the autograd node, saves what backward needs, and registers the parameters
 * that the operation adds to the layer. Factory "weft.factory.operation/1", tier stable. C++ authors derive a
 * class with weft/torch/operation.hpp. Operations of tier native have a table of their own.
 *
 * Tensors: all tensors of one call have the same floating-point dtype and device. Inputs are borrowed for the
 * call and must not be modified in place. Outputs are undefined tensors that belong to the host; the library
 * assigns a newly allocated tensor to each, never an input or a view of one.
 *
 * A layer may be sharded over the tensor axis. Then each rank calls forward with its own shard: the rows of
 * the weight of its output features, or the columns of its input features, and its shards of the added
 * parameters. The host sums outputs and gradients over the ranks. */
#ifndef WEFT_OPERATION_H
#define WEFT_OPERATION_H

#include "comm.h"
#include "types.h"

WEFT_BEGIN_C

/* The id of the factory. */
#define WEFT_FACTORY_OPERATION "weft.factory.operation/1"

/* An operation, as its library describes it. */
typedef struct weft_operation weft_operation;

/* An attribute that an adapter's file or a shard policy may set. */
typedef struct weft_attribute_rule {
  uint64_t struct_size;
  weft_kv standard;       /* its key, kind and default value */
  weft_str documentation; /* one line */
  int64_t minimum;        /* of an integer or a real number */
  weft_str adapter_key;   /* its name in adapter_config.json, such as "r"; empty: it is not there */
} weft_attribute_rule;

/* What a dimension of an added parameter is sharded with, if the layer is split. */
#define WEFT_ALONG_NOTHING 0
#define WEFT_ALONG_INPUT 1  /* the input features of the layer */
#define WEFT_ALONG_OUTPUT 2 /* its output features */

/* What an added parameter begins with, where no checkpoint has it. */
#define WEFT_INITIAL_CONSTANT 0 /* `first` */
#define WEFT_INITIAL_NORMAL 1   /* mean `first`, standard deviation `second` */
#define WEFT_INITIAL_UNIFORM 2  /* from `first` to `second` */

/* A parameter that the operation adds to a layer, in the dtype of the layer's weight. */
typedef struct weft_added_parameter {
  uint64_t struct_size;
  weft_str name;    /* "lora_A.weight": of a new child of the layer, and of its parameter */
  uint32_t ndim;    /* 1 or 2 */
  uint32_t initial; /* WEFT_INITIAL_* */
  double first;
  double second;
  int64_t shape[2];  /* whole */
  uint32_t along[2]; /* WEFT_ALONG_*; such a dimension has as many elements as the layer has features */
} weft_added_parameter;

/* Where a library declares parameters, inside `parameters`; they are copied. */
typedef struct weft_added_parameter_sink {
  void* context;
  /* [any thread] [no collective] since 0.2 */
  weft_status (*add)(void* context, const weft_added_parameter* parameter, weft_error* error);
} weft_added_parameter_sink;

/* One use of a layer. The attributes are complete. */
typedef struct weft_linear_call {
  uint64_t struct_size;
  const weft_kv* attributes;
  uint64_t num_attributes;
  const weft_at_tensor* input;             /* (..., inputs) */
  const weft_at_tensor* weight;            /* (outputs, inputs); its elements may lie in another order */
  const weft_at_tensor* bias;              /* (outputs); NULL if there is none, or if the host adds it */
  const weft_at_tensor* const* parameters; /* that the operation has added, in the order of `parameters` */
  uint64_t num_parameters;
  /* `num_saved` tensors of the operation: undefined in forward, which may store some for backward; as forward
   * stored them in backward. */
  weft_at_tensor* const* saved;
} weft_linear_call;

/* The gradients that backward stores. NULL: that one is not needed. */
typedef struct weft_linear_gradients {
  uint64_t struct_size;
  weft_at_tensor* input; /* of the shapes of weft_linear_call */
  weft_at_tensor* weight;
  weft_at_tensor* bias;
  weft_at_tensor* const* parameters;
} weft_linear_gradients;

/* Properties of an operation, as bits. An operation refuses layers that are split in a way of which it does
 * not have the bit. */
#define WEFT_OPERATION_SPLITS_OUTPUT 1 /* each output feature is computed without the other ones */
#define WEFT_OPERATION_SPLITS_INPUT 2  /* the output is the sum of what parts of the input features give */

/* What a library says of an operation, and its functions. */
struct weft_operation {
  uint64_t struct_size;
  void* context;          /* of the library's own */
  weft_str documentation; /* one line */
  uint32_t flags;         /* WEFT_OPERATION_* */
  uint32_t num_saved;     /* at most 16 */
  const weft_attribute_rule* const* attributes;
  uint64_t num_attributes;
  /* What adapter_config.json begins with, a JSON object such as {"peft_type": "LORA"}. The host adds the
   * attributes, the layers and how their weights lie. Empty if the operation adds no parameters. */
  weft_str adapter_config;

  /* Declares the parameters that the operation adds to a layer with these features, always the same ones for
   * the same arguments. NULL: it adds none, and shard policies can name it. [any thread] [no collective]
   * since 0.2 */
  weft_status (*parameters)(const weft_operation* operation, const weft_kv* attributes,
                            uint64_t num_attributes, int64_t inputs, int64_t outputs,
                            const weft_added_parameter_sink* sink, weft_error* error);
  /* Stores the output (..., outputs) of a layer. [any thread] [no collective] since 0.2 */
  weft_status (*forward)(const weft_operation* operation, const weft_linear_call* call,
                         weft_at_tensor* output, weft_error* error);
  /* Stores the gradients that are needed, given that of the output. Recomputation may call forward again
   * before it. [any thread] [no collective] since 0.2 */
  weft_status (*backward)(const weft_operation* operation, const weft_linear_call* call,
                          const weft_at_tensor* output_gradient, const weft_linear_gradients* gradients,
                          weft_error* error);
};

/* What get_factory(WEFT_FACTORY_OPERATION) returns: finds an operation of the library by its id,
 * "vendor.name/revision". The host asks the library that provides "vendor.name". */
typedef struct weft_operation_factory weft_operation_factory;
struct weft_operation_factory {
  uint64_t struct_size;
  /* [any thread] [no collective] since 0.2 */
  const weft_operation* (*find)(const weft_operation_factory* factory, weft_str id);
};

WEFT_END_C

#endif
