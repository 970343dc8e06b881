#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

test_place place;
weft_error* error;
weft_runtime* runtime;

static int failures = 0;

static void tell(const char* file, int line, const char* what, const char* text) {
  ++failures;
  fprintf(stderr, "%s:%d: rank %d of %d: %s: %s\n", file, line, place.rank, place.ranks, what, text);
}

void expect(int holds, const char* text, const char* file, int line) {
  if (!holds) tell(file, line, "does not hold", text);
}

void require(int holds, const char* text, const char* file, int line) {
  if (holds) return;
  tell(file, line, "is required", text);
  exit(1);
}

static const char* error_text(void) {
  static char text[4096];
  const weft_str given = weft_error_text(error);
  snprintf(text, sizeof(text), "%.*s", (int)given.size, given.data);
  return text;
}

void succeeds(weft_status status, const char* call, const char* file, int line) {
  if (status == WEFT_OK) return;
  fprintf(stderr, "status %d, \"%s\"\n", (int)status, error_text());
  require(0, call, file, line);
}

/* What no text of Weft may hold: a stack, or a type that the caller never wrote. */
static const char* const kForeign[] = {"std::",   "c10",          "Exception raised from",
                                       "frame #", "basic_string", NULL};

void refused(weft_status expected, weft_status status, const char* call, const char* file, int line,
             const char* const* pieces) {
  char what[4600];
  if (status != expected) {
    snprintf(what, sizeof(what), "status %d, expected %d (\"%s\")", (int)status, (int)expected,
             status == WEFT_OK ? "" : error_text());
    tell(file, line, what, call);
    return;
  }
  if (weft_error_status(error) != status) tell(file, line, "the error has another status", call);
  for (; *pieces != NULL; ++pieces) {
    if (strstr(error_text(), *pieces) != NULL) continue;
    snprintf(what, sizeof(what), "\"%s\" is missing in \"%s\"", *pieces, error_text());
    tell(file, line, what, call);
  }
  for (const char* const* foreign = kForeign; *foreign != NULL; ++foreign)
    if (strstr(error_text(), *foreign) != NULL) tell(file, line, error_text(), call);
}

void expect_near(double actual, double expected, double tolerance, const char* text, const char* file,
                 int line) {
  char what[128];
  if (fabs(actual - expected) <= tolerance * fabs(expected)) return;
  snprintf(what, sizeof(what), "%.17g, expected %.17g", actual, expected);
  tell(file, line, what, text);
}

int num_failures(void) {
  return failures;
}

void same_on_one_rank(const char* name, double value) {
  char kept[128], text[200];
  double expected = 0;
  if (place.rank != 0) return;
  FILE* file = fopen(in_folder("reference.txt"), place.ranks == 1 ? "a" : "r");
  REQUIRE(file != NULL);
  if (place.ranks == 1) {
    fprintf(file, "%s %.17g\n", name, value);
  } else {
    int found = 0;
    while (!found && fscanf(file, "%127s %lf", kept, &expected) == 2) found = strcmp(kept, name) == 0;
    snprintf(text, sizeof(text), "%s is %.17g, on one rank %.17g", name, value, expected);
    expect(found && fabs(value - expected) <= 1e-10 * fabs(expected), text, __FILE__, __LINE__);
  }
  fclose(file);
}

weft_str str(const char* text) {
  const weft_str value = {text != NULL ? text : "", text != NULL ? strlen(text) : 0};
  return value;
}

const char* in_folder(const char* name) {
  static char paths[8][1024];
  static unsigned next = 0;
  char* path = paths[next++ % 8];
  snprintf(path, sizeof(paths[0]), "%s/%s", place.folder, name);
  return path;
}

enum { kSamples = 8, kPositions = 16, kVocabulary = 256 };

static void draw(int seed, int64_t* ids) {
  uint32_t state = (uint32_t)seed * 2654435761u + 1;
  for (int i = 0; i < kSamples * kPositions; ++i) {
    state = state * 1664525u + 1013904223u;
    ids[i] = state >> 24;
  }
}

static test_batch batch_of(int seed, int64_t begin, int64_t end, int labels) {
  const int64_t shape[2] = {end - begin, kPositions}, count = shape[0] * shape[1];
  int64_t *all = malloc(kSamples * kPositions * sizeof(int64_t)),
          *wanted = malloc((size_t)count * sizeof(int64_t));
  int64_t* ids = malloc((size_t)count * sizeof(int64_t));
  test_batch batch;
  REQUIRE(all != NULL && wanted != NULL && ids != NULL);
  draw(seed, all);
  memcpy(ids, all + begin * kPositions, (size_t)count * sizeof(int64_t));
  memcpy(wanted, ids, (size_t)count * sizeof(int64_t));
  /* The later a sample, the fewer of its labels count. */
  for (int64_t i = 0; labels == SOME_LABELS && i < count; ++i)
    if (i % kPositions > kPositions - (begin + i / kPositions)) wanted[i] = -100;
  batch.rows = shape[0];
  batch.positions = kPositions;
  batch.ids = ids;
  OK(create_tensor(WEFT_I64, shape, 2, ids, (uint64_t)count * sizeof(int64_t), &batch.tensors[0]));
  OK(create_tensor(WEFT_I64, shape, 2, wanted, (uint64_t)count * sizeof(int64_t), &batch.tensors[1]));
  batch.fields[0] = (weft_field){WEFT_STR("input_ids"), batch.tensors[0]};
  batch.fields[1] = (weft_field){WEFT_STR("labels"), batch.tensors[1]};
  free(all);
  free(wanted);
  return batch;
}

weft_fields fields_of(const weft_field* fields, uint64_t count) {
  return (weft_fields){fields, count};
}

weft_status create_tensor(uint32_t dtype, const int64_t* shape, uint32_t ndim, const void* data,
                          uint64_t size_bytes, weft_tensor** own) {
  weft_tensor_info info = {
      .struct_size = sizeof(info), .dtype = dtype, .ndim = ndim, .size_bytes = size_bytes};
  info.data = data;
  for (uint32_t d = 0; d < ndim && d < WEFT_MAX_DIMS; ++d) info.shape[d] = shape[d];
  return weft_tensor_create(&info, own, error);
}

weft_status boost(weft_booster* booster, weft_model* model, const weft_criterion* criterion, weft_job** own) {
  const weft_boost_arguments arguments = {
      .struct_size = sizeof(arguments), .model = model, .criterion = criterion};
  return weft_booster_boost(booster, &arguments, own, error);
}

weft_status execute_pipeline(weft_job* job, weft_fields batch, uint32_t backward, double* loss,
                             const char* output, weft_tensor** own) {
  const weft_pipeline_arguments arguments = {.struct_size = sizeof(arguments),
                                             .batch = batch,
                                             .output = str(output),
                                             .own = own,
                                             .loss = loss,
                                             .backward = backward};
  return weft_job_execute_pipeline(job, &arguments, error);
}

void write_file(const char* path, const char* text) {
  FILE* file = fopen(path, "w");
  REQUIRE(file != NULL);
  REQUIRE(fputs(text, file) >= 0);
  REQUIRE(fclose(file) == 0);
}

test_batch make_batch(int seed, int labels) {
  return batch_of(seed, kSamples * place.rank / place.ranks, kSamples * (place.rank + 1) / place.ranks,
                  labels);
}

test_batch make_rows(int seed, int64_t begin, int64_t end) {
  const int64_t first = kSamples * place.rank / place.ranks;
  return batch_of(seed, first + begin, first + end, ALL_LABELS);
}

void destroy_batch(test_batch* batch) {
  weft_tensor_destroy(batch->tensors[0]);
  weft_tensor_destroy(batch->tensors[1]);
  free((void*)batch->ids);
}

weft_booster* make_booster(const char* strategy, const char* more) {
  char options[512];
  weft_booster* booster = NULL;
  if (strategy == NULL) strategy = place.ranks == 1 ? "none" : "torch_ddp";
  snprintf(options, sizeof(options), "{\"strategy\": \"%s\", \"precision\": \"fp64\"%s}", strategy,
           more != NULL ? more : "");
  OK(weft_booster_create(runtime, str(options), &booster, error));
  return booster;
}

test_job make_job(const test_options* options) {
  test_job made = {0};
  char model_options[256];
  snprintf(model_options, sizeof(model_options), "{\"precision\": \"fp64\", \"architecture\": \"%s\"}",
           options->architecture != NULL ? options->architecture : "GPT2LMHeadModel");
  made.booster = make_booster(options->strategy, options->booster);
  OK(weft_model_open(runtime, str(place.config), str(model_options), &made.model, error));
  if (options->optimizer != NULL)
    OK(weft_optimizer_create(runtime, made.model, str(options->optimizer), str(options->hyper),
                             &made.optimizer, error));
  if (options->schedule != NULL)
    OK(weft_scheduler_create(runtime, made.optimizer, str(options->schedule), str(options->schedule_options),
                             &made.scheduler, error));
  if (options->data_options != NULL)
    OK(weft_data_open(runtime, made.model, str(place.text), str(options->data_options), &made.data, error));
  const weft_boost_arguments arguments = {.struct_size = sizeof(arguments),
                                          .model = made.model,
                                          .optimizer = made.optimizer,
                                          .data = made.data,
                                          .scheduler = made.scheduler,
                                          .criterion = options->criterion};
  OK(weft_booster_boost(made.booster, &arguments, &made.job, error));
  return made;
}

void destroy_job(test_job* job) {
  weft_job_destroy(job->job);
  weft_booster_destroy(job->booster);
  weft_data_destroy(job->data);
  weft_scheduler_destroy(job->scheduler);
  weft_optimizer_destroy(job->optimizer);
  weft_model_destroy(job->model);
}

double train_on(test_job* job, int seed) {
  test_batch batch = make_batch(seed, ALL_LABELS);
  weft_step_result step = {.struct_size = sizeof(step)};
  OK(weft_job_train_step(job->job, fields_of(batch.fields, 2), &step, error));
  destroy_batch(&batch);
  return step.loss;
}

double loss_of(test_job* job, int seed) {
  test_batch batch = make_batch(seed, ALL_LABELS);
  double loss = 0;
  OK(weft_job_evaluate(job->job, fields_of(batch.fields, 2), &loss, error));
  destroy_batch(&batch);
  return loss;
}
