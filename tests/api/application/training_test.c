/* Steps, evaluation, forward, and a loop of the caller's own: the numbers of one rank on any number of them.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

enum { kSteps = 4 };

static const test_options kAdam = {.optimizer = "adamw", .hyper = "{\"lr\": 0.01}"};

static void record(const char* what, int step, double value) {
  char name[64];
  snprintf(name, sizeof(name), "%s.%d", what, step);
  same_on_one_rank(name, value);
}

static void steps_on_batches_are_those_of_one_rank(void) {
  test_options options = kAdam;
  options.schedule = "linear_warmup";
  options.schedule_options = "{\"warmup_steps\": 2, \"total_steps\": 10}";
  options.booster = ", \"max_grad_norm\": 0.5, \"accumulate\": 2";
  test_job job = make_job(&options);
  for (int i = 1; i <= kSteps; ++i) {
    test_batch batch = make_batch(i, SOME_LABELS);
    weft_step_result step = {.struct_size = sizeof(step)};
    OK(weft_job_train_step(job.job, fields_of(batch.fields, 2), &step, error));
    EXPECT(step.index == i);
    EXPECT(step.seconds > 0 && step.tokens_per_second > 0);
    record("train_step.loss", i, step.loss);
    record("train_step.norm", i, step.grad_norm);
    record("train_step.lr", i, step.lr);
    double loss = 0;
    OK(weft_job_evaluate(job.job, fields_of(batch.fields, 2), &loss, error));
    EXPECT(i == 1 || loss < step.loss); /* it has trained on this batch, first with a rate of almost 0 */
    record("evaluate.loss", i, loss);
    destroy_batch(&batch);
  }
  destroy_job(&job);
}

static void next_goes_through_epochs(void) {
  test_options options = kAdam;
  options.data_options = "{\"batch_size\": 128, \"sequence_length\": 16, \"seed\": 3}";
  test_job job = make_job(&options);
  weft_step_result step = {.struct_size = sizeof(step)};
  int steps[2] = {0, 0};
  for (int epoch = 0; epoch < 2; ++epoch) {
    weft_status status = WEFT_OK;
    while ((status = weft_job_next(job.job, &step, error)) == WEFT_OK) {
      EXPECT(step.grad_norm == -1); /* nothing is clipped */
      record("next.loss", (int)step.index, step.loss);
      REQUIRE(++steps[epoch] < 100);
    }
    REFUSED(WEFT_OUT_OF_RANGE, status, "epoch");
  }
  EXPECT(steps[0] > 1 && steps[0] == steps[1]);
  EXPECT(step.index == steps[0] + steps[1]);
  destroy_job(&job);
}

static void the_callers_own_loop_does_what_a_step_does(void) {
  test_options options = kAdam;
  test_job own = make_job(&options);
  options.booster = ", \"max_grad_norm\": 0.5";
  test_job whole = make_job(&options);
  for (int i = 1; i <= kSteps; ++i) {
    test_batch batch = make_batch(i, SOME_LABELS);
    weft_step_result step = {.struct_size = sizeof(step)};
    double loss = 0, norm = 0;
    OK(weft_job_train_step(whole.job, fields_of(batch.fields, 2), &step, error));
    OK(weft_job_backward(own.job, fields_of(batch.fields, 2), 1, &loss, error));
    OK(weft_job_clip_grad_by_norm(own.job, 0.5, &norm, error));
    OK(weft_job_step(own.job, error));
    OK(weft_job_zero_grad(own.job, error));
    EXPECT_NEAR(loss, step.loss, 1e-12);
    EXPECT_NEAR(norm, step.grad_norm, 1e-12);
    EXPECT(norm > 0.5); /* the limit was one */
    record("own_loop.loss", i, loss);
    destroy_batch(&batch);
  }
  EXPECT_NEAR(loss_of(&own, 1), loss_of(&whole, 1), 1e-12);
  destroy_job(&own);
  destroy_job(&whole);
}

/* Gradients of two backwards add up, whether the first one stays on its rank or not. */
static void backwards_add_up(void) {
  double norms[2] = {0, 0}, losses[2] = {0, 0};
  for (uint32_t synchronise = 0; synchronise < 2; ++synchronise) {
    const test_options options = {.optimizer = "sgd", .hyper = "{\"lr\": 0.5}"};
    test_job job = make_job(&options);
    test_batch first = make_batch(1, SOME_LABELS), second = make_batch(2, SOME_LABELS);
    double loss = 0;
    OK(weft_job_backward(job.job, fields_of(first.fields, 2), synchronise, &loss, error));
    OK(weft_job_backward(job.job, fields_of(second.fields, 2), 1, &loss, error));
    OK(weft_job_clip_grad_by_norm(job.job, 1e9, &norms[synchronise], error));
    OK(weft_job_step(job.job, error));
    OK(weft_job_zero_grad(job.job, error));
    losses[synchronise] = loss_of(&job, 3);
    destroy_batch(&first);
    destroy_batch(&second);
    destroy_job(&job);
  }
  EXPECT_NEAR(norms[0], norms[1], 1e-12);
  EXPECT_NEAR(losses[0], losses[1], 1e-12);
  same_on_one_rank("backwards.norm", norms[1]);
  same_on_one_rank("backwards.loss", losses[1]);
}

static void clipping_by_value_limits_every_element(void) {
  const test_options options = {.optimizer = "sgd", .hyper = "{\"lr\": 1}"};
  test_job job = make_job(&options);
  test_batch batch = make_batch(1, ALL_LABELS);
  double loss = 0, norm = 0;
  OK(weft_job_backward(job.job, fields_of(batch.fields, 2), 1, &loss, error));
  OK(weft_job_clip_grad_by_value(job.job, 1e-3, error));
  OK(weft_job_clip_grad_by_norm(job.job, 1e9, &norm, error));
  /* About 7000 elements of at most 1e-3 each. */
  EXPECT(norm > 1e-3 && norm < 1e-3 * 100);
  same_on_one_rank("clip_by_value.norm", norm);
  OK(weft_job_step(job.job, error));
  OK(weft_job_zero_grad(job.job, error));
  same_on_one_rank("clip_by_value.loss", loss_of(&job, 1));
  EXPECT(loss_of(&job, 1) < loss);
  destroy_batch(&batch);
  destroy_job(&job);
}

static void zeroed_gradients_change_nothing(void) {
  const test_options options = {.optimizer = "sgd", .hyper = "{\"lr\": 1}"};
  test_job job = make_job(&options);
  test_batch batch = make_batch(1, ALL_LABELS);
  double loss = 0;
  const double before = loss_of(&job, 1);
  OK(weft_job_backward(job.job, fields_of(batch.fields, 2), 1, &loss, error));
  EXPECT_NEAR(loss, before, 1e-12);
  OK(weft_job_zero_grad(job.job, error));
  OK(weft_job_step(job.job, error));
  EXPECT(loss_of(&job, 1) == before);
  destroy_batch(&batch);
  destroy_job(&job);
}

/* The mean of -log softmax(logits)[next token], from what forward gives. */
static double cross_entropy(const weft_tensor_info* logits, const test_batch* batch) {
  const int64_t vocabulary = logits->shape[2];
  double sum = 0;
  for (int64_t b = 0; b < batch->rows; ++b)
    for (int64_t t = 0; t + 1 < batch->positions; ++t) {
      const double* row = (const double*)logits->data + (b * batch->positions + t) * vocabulary;
      double total = 0;
      for (int64_t v = 0; v < vocabulary; ++v) total += exp(row[v]);
      sum += log(total) - row[batch->ids[b * batch->positions + t + 1]];
    }
  return sum / (double)(batch->rows * (batch->positions - 1));
}

/* Those of "*bias" have a rate of zero: only they stay as they are. */
static void groups_have_rates_of_their_own(void) {
  const test_options still = {.optimizer = "sgd",
                              .hyper = "{\"lr\": 0.5, \"groups\": [{\"parameters\": [\"*\"], \"lr\": 0}]}"};
  const test_options biases = {
      .optimizer = "sgd", .hyper = "{\"lr\": 0, \"groups\": [{\"parameters\": [\"*bias\"], \"lr\": 0.5}]}"};
  test_job job = make_job(&still);
  const double before = train_on(&job, 1);
  EXPECT(train_on(&job, 1) == before);
  destroy_job(&job);
  job = make_job(&biases);
  EXPECT(train_on(&job, 1) == before);
  const double after = train_on(&job, 1);
  EXPECT(after < before);
  same_on_one_rank("groups", after);
  destroy_job(&job);
}

static void forward_gives_an_output_by_name(void) {
  test_job job = make_job(&(test_options){0});
  test_batch batch = make_batch(5, ALL_LABELS);
  weft_tensor* logits = NULL;
  weft_tensor_info info = {.struct_size = sizeof(info)};
  OK(weft_job_forward(job.job, fields_of(batch.fields, 1), WEFT_STR("logits"), &logits,
                      error)); /* without labels */
  OK(weft_tensor_describe(logits, &info, error));
  EXPECT(info.dtype == WEFT_F64 && info.ndim == 3);
  EXPECT(info.shape[0] == batch.rows && info.shape[1] == batch.positions && info.shape[2] == 256);
  same_on_one_rank("forward.logit", ((const double*)info.data)[0]);
  if (place.ranks == 1) EXPECT_NEAR(cross_entropy(&info, &batch), loss_of(&job, 5), 1e-12);
  weft_tensor_destroy(logits);
  REFUSED(WEFT_NOT_FOUND,
          weft_job_forward(job.job, fields_of(batch.fields, 1), WEFT_STR("logit"), &logits, error), "logit",
          "logits");
  destroy_batch(&batch);
  destroy_job(&job);
}

/* In two stages on two ranks, each of which has the whole batch. */
static void pipelines_train_and_evaluate(void) {
  test_options options = kAdam;
  if (place.ranks == 2) options.booster = ", \"options\": {\"pp_size\": 2, \"num_microbatches\": 3}";
  test_job job = make_job(&options);
  const int is_last = place.rank + 1 == place.ranks;
  const int64_t rows = 8, first = rows * place.rank / place.ranks;
  for (int i = 1; i <= kSteps; ++i) {
    test_batch batch = make_rows(i, -first, rows - first);
    weft_tensor *logits = NULL, *evaluated = NULL;
    double loss = 0, before = 0;
    OK(execute_pipeline(job.job, fields_of(batch.fields, 2), 0, &before, "logits", &evaluated));
    OK(execute_pipeline(job.job, fields_of(batch.fields, 2), 1, &loss, "logits", &logits));
    EXPECT_NEAR(loss, before, 1e-12);
    EXPECT((logits != NULL) == is_last && (evaluated != NULL) == is_last);
    weft_tensor_destroy(logits);
    weft_tensor_destroy(evaluated);
    OK(weft_job_forward(job.job, fields_of(batch.fields, 1), WEFT_STR("logits"), &logits, error));
    EXPECT((logits != NULL) == is_last);
    weft_tensor_destroy(logits);
    OK(execute_pipeline(job.job, fields_of(batch.fields, 2), 1, NULL, "", NULL));
    OK(weft_job_step(job.job, error));
    OK(weft_job_zero_grad(job.job, error));
    record("execute_pipeline.loss", i, loss);
    destroy_batch(&batch);
  }
  destroy_job(&job);
}

/* A request of any rank ends the job on all of them after the same step. */
static void a_request_stops_every_rank(void) {
  test_job job = make_job(&kAdam);
  test_batch batch = make_batch(1, ALL_LABELS);
  weft_step_result step = {.struct_size = sizeof(step)};
  OK(weft_job_train_step(job.job, fields_of(batch.fields, 2), &step, error));
  EXPECT(step.stop == 0);
  if (place.rank + 1 == place.ranks) OK(weft_job_request_stop(job.job, error));
  OK(weft_job_train_step(job.job, fields_of(batch.fields, 2), &step, error));
  EXPECT(step.stop == 1);
  destroy_batch(&batch);
  destroy_job(&job);
}

/* On one rank: `weft run` would end with 128 + the signal. */
static void signals_stop_the_job(void) {
  if (place.ranks > 1) return;
  test_job job = make_job(&kAdam);
  test_batch batch = make_batch(1, ALL_LABELS);
  weft_step_result step = {.struct_size = sizeof(step)};
  weft_stop_signals *signals = NULL, *second = NULL;
  int32_t number = 0;
  OK(weft_stop_signals_create(job.job, &signals, error));
  REFUSED(WEFT_FAILED_PRECONDITION, weft_stop_signals_create(job.job, &second, error), "stop signals");
  raise(SIGTERM);
  OK(weft_job_train_step(job.job, fields_of(batch.fields, 2), &step, error));
  EXPECT(step.stop == 1);
  OK(weft_stop_signals_agree(signals, &number, error));
  EXPECT(number == SIGTERM);
  weft_stop_signals_destroy(signals);
  destroy_batch(&batch);
  destroy_job(&job);
}

static void calls_refuse_null(test_job* job, test_batch* batch) {
  weft_step_result step = {.struct_size = sizeof(step)};
  weft_tensor* tensor = NULL;
  double value = 0;
  weft_field* const fields = batch->fields;
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_next(NULL, &step, error), "weft_job_next: job is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_train_step(NULL, fields_of(fields, 2), &step, error),
          "weft_job_train_step: job is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_train_step(job->job, fields_of(fields, 2), NULL, error),
          "weft_job_train_step: out is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_train_step(job->job, fields_of(NULL, 2), &step, error),
          "weft_job_train_step: batch is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_evaluate(NULL, fields_of(fields, 2), &value, error),
          "weft_job_evaluate: job is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_evaluate(job->job, fields_of(fields, 2), NULL, error),
          "weft_job_evaluate: loss is null");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_job_forward(NULL, fields_of(fields, 2), WEFT_STR("logits"), &tensor, error),
          "weft_job_forward: job is null");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_job_forward(job->job, fields_of(fields, 2), WEFT_STR("logits"), NULL, error),
          "weft_job_forward: own is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_backward(NULL, fields_of(fields, 2), 1, &value, error),
          "weft_job_backward: job is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_backward(job->job, fields_of(fields, 2), 1, NULL, error),
          "weft_job_backward: loss is null");
  REFUSED(WEFT_INVALID_ARGUMENT, execute_pipeline(NULL, fields_of(fields, 2), 1, &value, "logits", &tensor),
          "weft_job_execute_pipeline: job is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_clip_grad_by_norm(NULL, 1, &value, error),
          "weft_job_clip_grad_by_norm: job is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_clip_grad_by_norm(job->job, 1, NULL, error),
          "weft_job_clip_grad_by_norm: norm is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_clip_grad_by_value(NULL, 1, error),
          "weft_job_clip_grad_by_value: job is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_step(NULL, error), "weft_job_step: job is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_zero_grad(NULL, error), "weft_job_zero_grad: job is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_request_stop(NULL, error), "weft_job_request_stop: job is null");
  weft_stop_signals* signals = NULL;
  int32_t number = 0;
  REFUSED(WEFT_INVALID_ARGUMENT, weft_stop_signals_create(NULL, &signals, error),
          "weft_stop_signals_create: job is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_stop_signals_create(job->job, NULL, error),
          "weft_stop_signals_create: own is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_stop_signals_agree(NULL, &number, error),
          "weft_stop_signals_agree: signals is null");
}

static void calls_refuse_wrong_values(void) {
  test_job job = make_job(&kAdam), idle = make_job(&(test_options){0});
  test_batch batch = make_batch(1, ALL_LABELS), other = make_rows(1, 0, 1);
  weft_step_result step = {.struct_size = sizeof(step)};
  double value = 0;
  calls_refuse_null(&job, &batch);
  REFUSED(WEFT_FAILED_PRECONDITION, weft_job_next(job.job, &step, error), "has no data",
          "weft_job_train_step");
  REFUSED(WEFT_FAILED_PRECONDITION, weft_job_train_step(idle.job, fields_of(batch.fields, 2), &step, error),
          "optimizer");
  REFUSED(WEFT_FAILED_PRECONDITION,
          execute_pipeline(idle.job, fields_of(batch.fields, 2), 1, &value, "", NULL), "optimizer");
  REFUSED(WEFT_FAILED_PRECONDITION, weft_job_step(idle.job, error), "optimizer");
  REFUSED(WEFT_FAILED_PRECONDITION, weft_job_zero_grad(idle.job, error), "optimizer");
  REFUSED(WEFT_FAILED_PRECONDITION, weft_job_clip_grad_by_norm(idle.job, 1, &value, error), "optimizer");
  REFUSED(WEFT_FAILED_PRECONDITION, weft_job_clip_grad_by_value(idle.job, 1, error), "optimizer");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_clip_grad_by_norm(job.job, 0, &value, error), "clip_grad_by_norm",
          "positive");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_clip_grad_by_norm(job.job, NAN, &value, error),
          "clip_grad_by_norm");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_clip_grad_by_value(job.job, -1, error), "clip_grad_by_value",
          "positive");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_train_step(job.job, fields_of(batch.fields, 0), &step, error),
          "no fields");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_train_step(job.job, fields_of(batch.fields, 1), &step, error),
          "labels");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_evaluate(job.job, fields_of(batch.fields, 1), &value, error),
          "labels");

  weft_field wrong[2] = {batch.fields[0], batch.fields[1]};
  wrong[1].name = WEFT_STR("label");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_backward(job.job, fields_of(wrong, 2), 1, &value, error), "label",
          "labels");
  wrong[1] = (weft_field){{NULL, 6}, batch.tensors[1]};
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_backward(job.job, fields_of(wrong, 2), 1, &value, error),
          "weft_job_backward", "no data");
  wrong[1] = (weft_field){WEFT_STR("labels"), NULL};
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_backward(job.job, fields_of(wrong, 2), 1, &value, error), "labels",
          "no tensor");
  wrong[1].tensor = other.tensors[1];
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_backward(job.job, fields_of(wrong, 2), 1, &value, error), "labels",
          "samples");

  /* A program that knows less of the struct. */
  weft_step_result older;
  memset(&older, 0x55, sizeof(older));
  const double untouched = older.auxiliary_loss;
  older.struct_size = offsetof(weft_step_result, auxiliary_loss);
  OK(weft_job_train_step(job.job, fields_of(batch.fields, 2), &older, error));
  EXPECT(older.index == 1 && older.auxiliary_loss == untouched);

  /* A result that cannot be told is known before the step: nothing was trained. */
  const double before = loss_of(&job, 1);
  step.struct_size = 8;
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_train_step(job.job, fields_of(batch.fields, 2), &step, error),
          "struct_size is 8");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_train_step(job.job, fields_of(batch.fields, 2), NULL, error),
          "out is null");
  EXPECT(loss_of(&job, 1) == before);
  destroy_batch(&batch);
  destroy_batch(&other);
  destroy_job(&job);
  destroy_job(&idle);
}

void test_training(void) {
  steps_on_batches_are_those_of_one_rank();
  next_goes_through_epochs();
  the_callers_own_loop_does_what_a_step_does();
  backwards_add_up();
  clipping_by_value_limits_every_element();
  zeroed_gradients_change_nothing();
  groups_have_rates_of_their_own();
  forward_gives_an_output_by_name();
  pipelines_train_and_evaluate();
  a_request_stops_every_rank();
  signals_stop_the_job();
  calls_refuse_wrong_values();
}
