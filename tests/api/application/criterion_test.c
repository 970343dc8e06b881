/* A loss in C: it trains as the model's own loss does, and what it does wrong is told. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

enum { kSteps = 5 };

typedef enum { RIGHT, FAILS, WRONG_SHAPE, WRONG_DTYPE, NO_GRADIENT } fault;

static const weft_tensor* field(weft_fields fields, const char* name) {
  for (uint64_t i = 0; i < fields.size; ++i)
    if (fields.data[i].name.size == strlen(name) && memcmp(fields.data[i].name.data, name, strlen(name)) == 0)
      return fields.data[i].tensor;
  return NULL;
}

/* Cross entropy of the next token, as a language model of Hugging Face has it: the mean over all positions
 * but the last of each sequence. `gradient` has the shape of the logits (B, T, V). */
static double cross_entropy(const weft_tensor_info* logits, const int64_t* ids, double* gradient) {
  const int64_t rows = logits->shape[0], positions = logits->shape[1], vocabulary = logits->shape[2];
  const double count = (double)(rows * (positions - 1));
  double sum = 0;
  for (int64_t b = 0; b < rows; ++b)
    for (int64_t t = 0; t + 1 < positions; ++t) {
      const int64_t at = (b * positions + t) * vocabulary, next = ids[b * positions + t + 1];
      const double* row = (const double*)logits->data + at;
      double total = 0;
      for (int64_t v = 0; v < vocabulary; ++v) total += exp(row[v]);
      sum += log(total) - row[next];
      for (int64_t v = 0; v < vocabulary; ++v) gradient[at + v] = (exp(row[v]) / total - (v == next)) / count;
    }
  return sum / count;
}

static weft_status loss_of_c(void* context, const weft_loss_arguments* arguments, weft_error* own_error) {
  const weft_fields outputs = arguments->outputs;
  const fault what = *(const fault*)context;
  weft_tensor_info logits = {.struct_size = sizeof(logits)}, ids = {.struct_size = sizeof(ids)};
  weft_status status = weft_tensor_describe(field(outputs, "logits"), &logits, own_error);
  if (status != WEFT_OK) return status;
  status = weft_tensor_describe(field(arguments->batch, "input_ids"), &ids, own_error);
  if (status != WEFT_OK) return status;
  if (what == FAILS) {
    weft_error_set(own_error, WEFT_DATA_LOSS, WEFT_STR("the teacher has no answer"));
    return WEFT_DATA_LOSS;
  }
  double* gradient = calloc(1, (size_t)logits.size_bytes);
  if (gradient == NULL) return WEFT_RESOURCE_EXHAUSTED;
  *arguments->loss = cross_entropy(&logits, ids.data, gradient);
  for (uint64_t i = 0; i < outputs.size && status == WEFT_OK; ++i) {
    if (outputs.data[i].tensor != field(outputs, "logits") || what == NO_GRADIENT) continue;
    const int64_t flat = logits.shape[0] * logits.shape[1] * logits.shape[2];
    if (what == WRONG_SHAPE)
      status = create_tensor(WEFT_F64, &flat, 1, gradient, logits.size_bytes, &arguments->gradients[i]);
    else
      status = create_tensor(what == WRONG_DTYPE ? WEFT_I64 : WEFT_F64, logits.shape, logits.ndim, gradient,
                             logits.size_bytes, &arguments->gradients[i]);
  }
  free(gradient);
  return status;
}

static const test_options kSgd = {.optimizer = "sgd", .hyper = "{\"lr\": 0.5, \"momentum\": 0.9}"};

static void it_trains_as_the_models_own_loss(void) {
  fault what = RIGHT;
  const weft_criterion criterion = {sizeof(criterion), &what, loss_of_c};
  test_options options = kSgd;
  test_job reference = make_job(&options);
  options.criterion = &criterion;
  test_job job = make_job(&options);
  double losses[kSteps];
  for (int i = 0; i < kSteps; ++i) {
    losses[i] = train_on(&job, 1);
    EXPECT_NEAR(losses[i], train_on(&reference, 1), 1e-11);
    EXPECT(i == 0 || losses[i] < losses[i - 1]);
  }
  same_on_one_rank("criterion.last", losses[kSteps - 1]);
  EXPECT_NEAR(loss_of(&job, 2), loss_of(&reference, 2), 1e-11);
  destroy_job(&job);
  destroy_job(&reference);
}

/* With micro-batches and in a loop of the caller's own. */
static void it_accumulates_as_the_models_own_loss(void) {
  fault what = RIGHT;
  const weft_criterion criterion = {sizeof(criterion), &what, loss_of_c};
  test_options options = kSgd;
  options.booster = ", \"accumulate\": 2, \"max_grad_norm\": 0.5";
  test_job reference = make_job(&options);
  options.criterion = &criterion;
  test_job job = make_job(&options);
  for (int i = 1; i <= 2; ++i) EXPECT_NEAR(train_on(&job, i), train_on(&reference, i), 1e-11);
  test_job* const both[2] = {&reference, &job};
  double losses[2] = {0, 0};
  for (int j = 0; j < 2; ++j) {
    test_batch batch = make_batch(3, ALL_LABELS);
    OK(weft_job_backward(both[j]->job, fields_of(batch.fields, 2), 0, &losses[j], error));
    OK(weft_job_backward(both[j]->job, fields_of(batch.fields, 2), 1, &losses[j], error));
    OK(weft_job_step(both[j]->job, error));
    OK(weft_job_zero_grad(both[j]->job, error));
    destroy_batch(&batch);
  }
  EXPECT_NEAR(losses[1], losses[0], 1e-11);
  EXPECT_NEAR(loss_of(&job, 4), loss_of(&reference, 4), 1e-11);
  same_on_one_rank("criterion.accumulated", loss_of(&job, 4));
  destroy_job(&job);
  destroy_job(&reference);
}

/* Without a power the focal loss is the cross entropy of the model. */
static void an_objective_of_a_library_trains_as_the_models_own_loss(void) {
  test_options options = kSgd;
  test_job reference = make_job(&options);
  options.booster = ", \"accumulate\": 2, \"objective\": \"focal\", \"objective_options\": {\"gamma\": 0}";
  test_job job = make_job(&options);
  for (int i = 1; i <= 3; ++i) EXPECT_NEAR(train_on(&job, i), train_on(&reference, i), 1e-11);
  EXPECT_NEAR(loss_of(&job, 4), loss_of(&reference, 4), 1e-11);
  same_on_one_rank("objective.last", loss_of(&job, 4));
  destroy_job(&job);
  destroy_job(&reference);
  reference = make_job(&kSgd);
  options.booster = ", \"objective\": \"focal\", \"objective_options\": {\"gamma\": 5}";
  test_job other = make_job(&options);
  EXPECT(loss_of(&other, 4) < 0.99 * loss_of(&reference, 4));
  destroy_job(&other);
  destroy_job(&reference);
}

static void what_it_does_wrong_is_told(fault what, weft_status status, const char* piece) {
  const weft_criterion criterion = {sizeof(criterion), &what, loss_of_c};
  test_options options = kSgd;
  options.criterion = &criterion;
  test_job job = make_job(&options);
  test_batch batch = make_batch(1, ALL_LABELS);
  weft_step_result step = {.struct_size = sizeof(step)};
  REFUSED(status, weft_job_train_step(job.job, fields_of(batch.fields, 2), &step, error), "criterion", piece);
  destroy_batch(&batch);
  destroy_job(&job);
}

void test_criterion(void) {
  it_trains_as_the_models_own_loss();
  it_accumulates_as_the_models_own_loss();
  an_objective_of_a_library_trains_as_the_models_own_loss();
  what_it_does_wrong_is_told(FAILS, WEFT_DATA_LOSS, "the teacher has no answer");
  what_it_does_wrong_is_told(WRONG_SHAPE, WEFT_INVALID_ARGUMENT, "the gradient of \"logits\"");
  what_it_does_wrong_is_told(WRONG_DTYPE, WEFT_INVALID_ARGUMENT, "the gradient of \"logits\"");
  what_it_does_wrong_is_told(NO_GRADIENT, WEFT_INVALID_ARGUMENT, "no gradient was given");
}
