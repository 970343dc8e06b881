// Whisper on folders of recordings, from training to the words that it gets wrong.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <numbers>

#include "command/command.hpp"
#include "support/encoded_sound.hpp"
#include "support/wav.hpp"

namespace weft::test {
namespace {

class SoundCommand : public CommandTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(in("model"));
    std::filesystem::create_directories(in("sounds"));
    folder_.file("text", "low high");
    expect_success(
        {"tokenizer", "train", "--data", in("text"), "--vocab-size", "257", "--output", in("model")});
    folder_.file("model/config.json", config(""));
    tone("sounds/1", 300, "low");
    tone("sounds/2", 3000, "high");
    tone("sounds/3", 300, "low");
    tone("sounds/4", 3000, "high");
  }
  std::string config(const std::string& more) const {
    return R"({"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "vocab_size": 258,
      "d_model": 32, "num_mel_bins": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
      "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_source_positions": 50,
      "max_target_positions": 12, "decoder_start_token_id": 257, "pad_token_id": 0, "bos_token_id": 257,)" +
           more + R"("eos_token_id": 0, "suppress_tokens": [], "begin_suppress_tokens": []})";
  }
  // Writes a recording of half a second, and its transcript.
  void tone(const std::string& name, double hertz, const std::string& text, uint32_t rate = 16000) const {
    folder_.file(name + ".wav", wav_of(samples_of(hertz, rate), rate));
    folder_.file(name + ".txt", text);
  }
  std::vector<float> samples_of(double hertz, uint32_t rate) const {
    std::vector<float> samples;
    for (uint32_t i = 0; i < rate / 2; ++i)
      samples.push_back(static_cast<float>(0.5 * std::sin(2 * std::numbers::pi * hertz * i / rate)));
    return samples;
  }
  // Writes the samples of tone() in another format.
  void encode(const std::string& file, double hertz, int format) const {
    std::vector<int32_t> samples;
    for (const float sample : samples_of(hertz, 16000))
      samples.push_back(static_cast<int16_t>(sample * 32767) * 65536);
    folder_.file(file, encoded_sound(SoundCoding{format}, samples));
  }
  Words train(const Words& more = {"--strategy", "none", "--batch-size", "4", "--steps", "60"}) const {
    return Words{"train", "--model",  in("model"), "--data", in("sounds"), "--precision", "fp32", "--lr",
                 "0.01",  "--output", in("out"),   "--seed", "7"} +
           more;
  }
};

TEST_F(SoundCommand, LearnsTranscriptsAndWritesThem) {
  const Output trained = expect_success(train());
  EXPECT_THAT(trained.error + trained.out, testing::HasSubstr("recordings become 8 mel bins over 1 s"));
  const auto evaluate = [&](const Words& more) {
    return nlohmann::json::parse(expect_success(Words{"evaluate", "--model", in("out"), "--data",
                                                      in("sounds"), "--json", "--word-error-rate"} +
                                                more)
                                     .out);
  };
  EXPECT_EQ(evaluate({}).at("word_error_rate"), 0);
  EXPECT_LT(evaluate({}).at("loss"), 0.1);
  // One of four transcripts is another one, of two words: one of five words is wrong, and one is missing.
  folder_.file("sounds/3.txt", "high low");
  const nlohmann::json wrong = evaluate({});
  EXPECT_NEAR(wrong.at("word_error_rate"), 0.2, 1e-12);
  EXPECT_EQ(evaluate({"-n", "2"}).at("word_error_rate"), wrong.at("word_error_rate"));
  EXPECT_EQ(evaluate({"--batch-size", "3"}).at("word_error_rate"), wrong.at("word_error_rate"));
  // Recordings that have no transcripts: a folder, and one of another rate.
  std::filesystem::create_directory(in("new"));
  tone("new/a", 3000, "");
  tone("new/b", 300, "");
  tone("other", 3000, "", 22050);
  const Words generate = {"generate", "--model", in("out"), "--greedy", "--max-new-tokens", "8", "--inputs"};
  EXPECT_EQ(expect_success(generate + Words{in("new")}).out, "high\nlow\n");
  EXPECT_EQ(expect_success(generate + Words{in("other.wav")}).out, "high\n");
}

TEST_F(SoundCommand, EvaluationInTrainingHasTheWordErrorsOfTheVerb) {
  const Words measured = {"--evaluate-every", "10",   "--evaluation-data", in("sounds"), "--word-error-rate",
                          "--metrics",        in("m")};
  for (const Words& layout : {Words{"--strategy", "none"}, Words{"-n", "2", "--strategy", "torch_fsdp"},
                              Words{"-n", "2", "--strategy", "hybrid_parallel", "-o", "tp_size=2", "-o",
                                    "parallel_output=false"}}) {
    expect_success(train(
        Words{"--batch-size", "4", "--steps", "30", "--save-every", "10", "--keep-best", "word_error_rate"} +
        measured + layout));
    const std::vector<nlohmann::json> lines = read_metrics(in("m"));
    ASSERT_EQ(lines.size(), 30u);
    double best = 2;
    for (const size_t step : {10, 20, 30}) {
      const nlohmann::json& found = lines[step - 1].at("evaluation");
      const std::string folder = step == 30 ? in("out") : in("out/step-") + std::to_string(step);
      const auto verb = nlohmann::json::parse(
          expect_success(Words{"evaluate", "--model", folder, "--data", in("sounds"), "--json",
                               "--batch-size", "4", "--precision", "fp32", "--word-error-rate"} +
                         layout)
              .out);
      for (const char* same : {"word_error_rate", "loss"})
        EXPECT_EQ(found.at(same), verb.at(same)) << step << " " << testing::PrintToString(layout);
      best = std::min(best, found.at("word_error_rate").get<double>());
    }
    EXPECT_LT(best, lines[9].at("evaluation").at("word_error_rate")) << "it learns";
    const std::string kept = std::filesystem::read_symlink(in("out/best")).string();
    EXPECT_EQ(lines[std::stoul(kept.substr(5)) - 1].at("evaluation").at("word_error_rate"), best);
    std::filesystem::remove_all(in("out"));
    std::filesystem::remove(in("m"));
  }
  // Nothing is trained where nothing can be generated.
  EXPECT_TRUE(refuses(train(Words{"--batch-size", "4", "--steps", "30", "-n", "2", "--strategy",
                                  "hybrid_parallel", "-o", "tp_size=2", "-o", "parallel_output=true"} +
                            measured),
                      1, {"parallel_output"}));
  EXPECT_FALSE(std::filesystem::exists(in("m")) && !read_metrics(in("m")).empty());
  EXPECT_TRUE(
      refuses(train({"--steps", "1", "--word-error-rate"}), 1, {"--word-error-rate", "--evaluate-every"}));
}

TEST_F(SoundCommand, ReadsTheSameOnRanksAndWithoutWorkers) {
  const auto losses = [&](const Words& more) {
    expect_success(train(Words{"--steps", "6", "--batch-size", "2", "--metrics", in("m")} + more));
    std::vector<double> found;
    for (const nlohmann::json& line : read_metrics(in("m"))) found.push_back(line.at("loss"));
    return found;
  };
  const std::vector<double> expected = losses({"--strategy", "none"});
  ASSERT_EQ(expected.size(), 6u);
  EXPECT_EQ(losses({"--strategy", "none", "--workers", "0"}), expected);
  const std::vector<double> ranks = losses({"--strategy", "torch_ddp", "-n", "2"});
  ASSERT_EQ(ranks.size(), expected.size());
  for (size_t i = 0; i < ranks.size(); ++i) EXPECT_NEAR(ranks[i], expected[i], 2e-5 * expected[i]) << i;
}

TEST_F(SoundCommand, ReadsOtherFormats) {
  const auto losses = [&] {
    expect_success(train({"--strategy", "none", "--batch-size", "4", "--steps", "60", "--metrics", in("m")}));
    std::vector<double> found;
    for (const nlohmann::json& line : read_metrics(in("m"))) found.push_back(line.at("loss"));
    return found;
  };
  const std::vector<double> expected = losses();
  // The same samples have the same losses.
  for (const char* name : {"1", "2", "3", "4"})
    std::filesystem::remove(in(std::string("sounds/") + name + ".wav"));
  encode("sounds/1.flac", 300, SF_FORMAT_FLAC | SF_FORMAT_PCM_16);
  encode("sounds/2.FLAC", 3000, SF_FORMAT_FLAC | SF_FORMAT_PCM_24);
  encode("sounds/3.aiff", 300, SF_FORMAT_AIFF | SF_FORMAT_PCM_16);
  encode("sounds/4.aif", 3000, SF_FORMAT_AIFF | SF_FORMAT_PCM_32);
  EXPECT_EQ(losses(), expected);
  const Words generate = {"generate", "--model", in("out"), "--greedy", "--max-new-tokens", "8", "--inputs"};
  std::filesystem::create_directory(in("new"));
  encode("new/a.ogg", 3000, SF_FORMAT_OGG | SF_FORMAT_VORBIS);
  encode("new/b.OPUS", 300, SF_FORMAT_OGG | SF_FORMAT_OPUS);
  EXPECT_EQ(expect_success(generate + Words{in("new")}).out, "high\nlow\n");
  EXPECT_EQ(expect_success(generate + Words{in("new/b.OPUS")}).out, "low\n");
  expect_success(
      {"forward", "--model", in("out"), "--inputs", in("sounds"), "--output", in("logits.safetensors")});
  EXPECT_TRUE(refuses(train({"--strategy", "none", "--steps", "2", "--metrics", in("sounds/1.flac")}), 1,
                      {"--metrics", "sounds/1.flac", "this command reads that file"}));
  tone("sounds/3", 300, "low");
  EXPECT_TRUE(refuses(train(), 1, {"3.aiff and 3.wav", "3.txt"}));
  std::filesystem::remove(in("sounds/3.wav"));
  folder_.file("sounds/1.flac", read_bytes(in("sounds/1.flac")).substr(0, 2000));
  EXPECT_TRUE(refuses(train(), 1, {"sounds/1.flac", "truncated or damaged"}));
}

// A file in the place of the library that is none has the effect of a missing one. WAV does not need it.
TEST_F(SoundCommand, NamesTheLibraryThatOtherFormatsNeed) {
  folder_.file("libsndfile.so.1", "");
  const std::string variable = "LD_LIBRARY_PATH=" + in("");
  const Words job = train({"--strategy", "none", "--batch-size", "4", "--steps", "1"});
  EXPECT_EQ(weft_command_with(variable, job).exit_code, 0);
  std::filesystem::remove(in("sounds/2.wav"));
  encode("sounds/2.flac", 3000, SF_FORMAT_FLAC | SF_FORMAT_PCM_16);
  const Output refused = weft_command_with(variable, job);
  EXPECT_EQ(refused.exit_code, 1);
  for (const char* piece : {"sounds/2.flac", "libsndfile.so.1", "apt-get install libsndfile1"})
    EXPECT_THAT(refused.error, testing::HasSubstr(piece));
}

TEST_F(SoundCommand, ClassifiesFolders) {
  for (const char* folder : {"classes/low", "classes/high"}) std::filesystem::create_directories(in(folder));
  for (const char* name : {"1", "2"}) {
    tone(std::string("classes/low/") + name, 300, "");
    tone(std::string("classes/high/") + name, 3000, "");
    std::filesystem::remove(in(std::string("classes/low/") + name + ".txt"));
    std::filesystem::remove(in(std::string("classes/high/") + name + ".txt"));
  }
  std::string text = config(R"("num_labels": 2,)");
  text.replace(text.find("WhisperForConditionalGeneration"), 31, "WhisperForAudioClassification");
  folder_.file("model/config.json", text);
  expect_success(Words{"train", "--model", in("model"), "--data", in("classes"), "--strategy", "none",
                       "--steps", "40", "--lr", "0.01", "--batch-size", "4", "--output", in("out")});
  const nlohmann::json result = nlohmann::json::parse(
      expect_success({"evaluate", "--model", in("out"), "--data", in("classes"), "--json"}).out);
  EXPECT_EQ(result.at("accuracy"), 1);
  EXPECT_TRUE(refuses({"evaluate", "--model", in("out"), "--data", in("classes"), "--word-error-rate"}, 1,
                      {"word error rate", "WhisperForAudioClassification"}));
}

TEST_F(SoundCommand, RefusesWhatDoesNotFit) {
  const auto with = [&](const Words& more) {
    return train(Words{"--steps", "2", "--strategy", "none"} + more);
  };
  EXPECT_TRUE(refuses(with({"--sequence-length", "8"}), 1, {"--sequence-length", "a folder of recordings"}));
  EXPECT_TRUE(refuses(with({"--flip"}), 1, {"--flip is for images"}));
  folder_.file("sounds/2.txt", "many more words than fit");
  EXPECT_TRUE(refuses(with({}), 1, {"sounds/2.txt", "tokens, but the model takes 12 at most"}));
  folder_.file("sounds/2.txt", "high");
  folder_.file("model/preprocessor_config.json", R"({"feature_size": 80, "chunk_length": 1})");
  EXPECT_TRUE(refuses(with({}), 1, {"80 mel bins and 100 frames", "reads 8 and 100"}));
  folder_.file(
      "model/preprocessor_config.json",
      R"({"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 8, "chunk_length": 1})");
  folder_.file("sounds/4.wav", read_bytes(in("sounds/4.wav")).substr(0, 1000));
  EXPECT_TRUE(refuses(with({}), 1, {"sounds/4.wav", "cut short"}));
  std::filesystem::remove(in("model/tokenizer.json"));
  std::filesystem::remove(in("model/tokenizer_config.json"));
  EXPECT_TRUE(refuses(with({}), 1, {"learns the tokens of transcripts", "--tokenizer"}));
  EXPECT_TRUE(refuses({"generate", "--model", in("model"), "--allow-missing", "--prompt", "x"}, 1,
                      {"reads no tokens", ".wav file"}));
}

}  // namespace
}  // namespace weft::test
