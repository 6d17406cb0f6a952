// Tests maxsim-shard as users run it: exit codes, messages, real data, and that other programs can read its files.
#include "tools/maxsim-shard/commands.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "collection/formats/npy.h"
#include "collection/manifest.h"
#include "collection/shard.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/collection/run_shard.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::shard_tool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Returns the path of a Python with safetensors and NumPy. Empty if MAXSIM_STORES_PYTHON is not set, which CTest always
// sets.
std::string StoresPython() {
  const char* chosen = std::getenv("MAXSIM_STORES_PYTHON");
  return chosen != nullptr ? chosen : "";
}

class CliTest : public ::testing::Test {
 protected:
  // Writes two documents of 2 and 1 tokens. Returns the arguments that build them.
  std::vector<std::string> BuildArguments() {
    collection::WriteBytes(folder_.Path("tokens.npy"),
                           collection::NpyBytes("<f4", "(3, 8)", collection::AsBytes(std::vector<float>(24, 0.5f))));
    collection::WriteBytes(folder_.Path("lengths.npy"),
                           collection::NpyBytes("<i8", "(2,)", collection::AsBytes<int64_t>({2, 1})));
    collection::WriteBytes(folder_.Path("docs.jsonl"),
                           "{\"id\":\"a\",\"title\":\"A\"}\n{\"id\":\"b\",\"title\":\"B\"}\n");
    return {"build",
            "--tokens",
            folder_.Path("tokens.npy"),
            "--lengths",
            folder_.Path("lengths.npy"),
            "--ids",
            folder_.Path("docs.jsonl"),
            "--output",
            folder_.Path("out"),
            "--name",
            "two"};
  }
  collection::TemporaryFolder folder_;
};

TEST_F(CliTest, BuildsInspectsAndVerifies) {
  const Outcome build = RunShard(BuildArguments());
  EXPECT_EQ(build.code, 0) << build.err;
  EXPECT_THAT(build.out,
              AllOf(HasSubstr("generation 1 of \"two\": 2 documents, 3 tokens x 8 f16"), HasSubstr("1 shard")));
  const Outcome inspect = RunShard({"inspect", folder_.Path("out")});
  EXPECT_EQ(inspect.code, 0);
  EXPECT_THAT(inspect.out, AllOf(HasSubstr("min 1  median 1  mean 1.5  p99 2  max 2"), HasSubstr("xxh3-128:")));
  const auto json = nlohmann::json::parse(RunShard({"inspect", "--json", folder_.Path("out")}).out);
  EXPECT_EQ(json["num_documents"], 2);
  EXPECT_EQ(json["tokens_per_document"]["max"], 2);
  EXPECT_EQ(json["shards"].size(), 1);
  const Outcome verify = RunShard({"verify", folder_.Path("out")});
  EXPECT_EQ(verify.code, 0);
  EXPECT_THAT(verify.out, AllOf(HasSubstr("no problem found"), Not(HasSubstr("read in 0"))));
}

TEST_F(CliTest, TheEncoderIsNamedInTheManifest) {
  std::vector<std::string> arguments = BuildArguments();
  arguments.insert(arguments.end(), {"--encoder", folder_.Path("encoder.json")});
  EXPECT_THAT(RunShard(arguments).err, HasSubstr("--encoder: "));
  collection::WriteBytes(folder_.Path("encoder.json"), R"({"model":"m","dim":16})");
  EXPECT_THAT(RunShard(arguments).err, HasSubstr("encoder: dim: 16, but the token vectors' dim is 8"));
  collection::WriteBytes(folder_.Path("encoder.json"), R"({"model":"m","dim":8,"modle":1})");
  EXPECT_THAT(RunShard(arguments).err, HasSubstr("unknown key \"modle\""));
  collection::WriteBytes(folder_.Path("encoder.json"), R"({"model":"m","dim":8,"fingerprint":"f"})");
  const Outcome build = RunShard(arguments);
  ASSERT_EQ(build.code, 0) << build.err;
  const auto manifest = collection::ReadManifest(folder_.Path("out"));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_TRUE(manifest->encoder.has_value());
  EXPECT_EQ(manifest->encoder->fingerprint, "f");
  EXPECT_THAT(RunShard({"inspect", folder_.Path("out")}).out, HasSubstr("m (fingerprint f)"));
  const Outcome quantize = RunShard({"quantize", folder_.Path("out"), folder_.Path("i8")});
  ASSERT_EQ(quantize.code, 0) << quantize.err;
  EXPECT_EQ(collection::ReadManifest(folder_.Path("i8"))->encoder, manifest->encoder);
}

TEST_F(CliTest, CollectionsAreStoredAgainAndMerged) {
  std::vector<std::string> arguments = BuildArguments();
  collection::WriteBytes(folder_.Path("encoder.json"), R"({"model":"m","dim":8})");
  arguments.insert(arguments.end(), {"--storage", "f32", "--encoder", folder_.Path("encoder.json")});
  ASSERT_EQ(RunShard(arguments).code, 0);
  // Without --storage, the build must keep the storage of the inputs. It must also keep their encoder.
  Outcome build = RunShard({"build", "--input", folder_.Path("out"), "--output", folder_.Path("copy")});
  ASSERT_EQ(build.code, 0) << build.err;
  EXPECT_THAT(build.out, HasSubstr("generation 1 of \"copy\": 2 documents, 3 tokens x 8 f32"));
  EXPECT_EQ(collection::ReadManifest(folder_.Path("copy"))->encoder->model, "m");
  collection::WriteBytes(folder_.Path("docs.jsonl"), "{\"id\":\"c\"}\n{\"id\":\"d\"}\n");
  collection::WriteBytes(folder_.Path("encoder.json"), R"({"model":"n","dim":8})");
  arguments = BuildArguments();
  collection::WriteBytes(folder_.Path("docs.jsonl"), "{\"id\":\"c\"}\n{\"id\":\"d\"}\n");
  arguments[8] = folder_.Path("other");
  arguments.insert(arguments.end(), {"--encoder", folder_.Path("encoder.json")});
  ASSERT_EQ(RunShard(arguments).code, 0);
  const std::vector<std::string> merge = {
      "build",     "--input", folder_.Path("out"), "--input", folder_.Path("other"), "--output", folder_.Path("both"),
      "--storage", "f16"};
  build = RunShard(merge);
  EXPECT_EQ(build.code, 1);
  EXPECT_THAT(build.err,
              AllOf(HasSubstr("was encoded by m, but "), HasSubstr("name one encoder for all with --encoder")));
  std::vector<std::string> named = merge;
  named.insert(named.end(), {"--encoder", folder_.Path("encoder.json")});
  build = RunShard(named);
  ASSERT_EQ(build.code, 0) << build.err;
  EXPECT_THAT(build.out, HasSubstr("4 documents, 6 tokens x 8 f16"));
  EXPECT_EQ(RunShard({"verify", folder_.Path("both")}).code, 0);
}

TEST_F(CliTest, TheNextGenerationKeepsNameAndStorage) {
  std::vector<std::string> arguments = BuildArguments();
  arguments.insert(arguments.end(), {"--storage", "bf16"});
  ASSERT_EQ(RunShard(arguments).code, 0);
  arguments.resize(arguments.size() - 4);  // takes --name and --storage away
  Outcome build = RunShard(arguments);
  EXPECT_EQ(build.code, 0) << build.err;
  EXPECT_THAT(build.out, HasSubstr("generation 2 of \"two\": 2 documents, 3 tokens x 8 bf16"));
  arguments.insert(arguments.end(), {"--storage", "f32"});
  build = RunShard(arguments);
  EXPECT_THAT(build.out, HasSubstr("generation 3 of \"two\": 2 documents, 3 tokens x 8 f32"));
}

TEST_F(CliTest, QuietPrintsNothing) {
  std::vector<std::string> arguments = BuildArguments();
  arguments.push_back("--quiet");
  const Outcome build = RunShard(arguments);
  EXPECT_EQ(build.code, 0);
  EXPECT_EQ(build.out + build.err, "");
}

TEST_F(CliTest, VerifyExitsWithOneAndSaysWhatIsWrong) {
  ASSERT_EQ(RunShard(BuildArguments()).code, 0);
  const std::string path = folder_.Path("out/shard-000001-00000.safetensors");
  std::string bytes = collection::ReadBytes(path);
  bytes[4096] = static_cast<char>(bytes[4096] ^ 1);
  collection::WriteBytes(path, bytes);
  const Outcome verify = RunShard({"verify", folder_.Path("out")});
  EXPECT_EQ(verify.code, 1);
  EXPECT_THAT(verify.err, AllOf(HasSubstr("problem: "), HasSubstr(path), HasSubstr("checksum")));
  EXPECT_THAT(verify.out, HasSubstr("1 PROBLEM"));
}

TEST_F(CliTest, WrongCommandLinesExitWithTwoAndAHint) {
  EXPECT_EQ(RunShard({}).code, 2);
  EXPECT_EQ(RunShard({"bulid"}).code, 2);
  EXPECT_THAT(RunShard({"bulid"}).err, HasSubstr("no subcommand \"bulid\"; there are build, inspect, verify, quantize, "
                                                 "encode, evaluate, compact, split, merge, upgrade and restore (see "
                                                 "--help)\n"));
  EXPECT_EQ(RunShard({""}).code, 2);
  EXPECT_EQ(RunShard({"inspect"}).code, 2);
  const Outcome flag = RunShard({"build", "--token", "x"});
  EXPECT_EQ(flag.code, 2);
  std::vector<std::string> arguments = BuildArguments();
  arguments.insert(arguments.end(), {"--id-type", "uuid"});
  EXPECT_EQ(RunShard(arguments).code, 2);
  EXPECT_EQ(flag.err, "maxsim-shard: there is no option --token (see maxsim-shard build --help)\n");
  EXPECT_EQ(RunShard({"build"}).err, "maxsim-shard: --output is required (see maxsim-shard build --help)\n");
  EXPECT_EQ(RunShard({"inspect", "folder", "more"}).err,
            "maxsim-shard: \"more\" was not expected (see maxsim-shard inspect --help)\n");
  const Outcome top = RunShard({"--help"});
  EXPECT_EQ(top.code, 0);
  EXPECT_THAT(
      top.out,
      HasSubstr("Exit codes: 0 done; 1 failed, verify found a problem, or upgrade --check something to do; 2 the "
                "command line is wrong"));
  const Outcome help = RunShard({"build", "--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* flag_name :
       {"--tokens", "--lengths", "--scales", "--input", "--ids", "--output", "--name", "--storage", "--seed",
        "--threads", "--id-type", "--max-shard-bytes", "4GiB", "--quiet"}) {
    EXPECT_THAT(help.out, HasSubstr(flag_name));
  }
  EXPECT_THAT(RunShard({"--version"}).out, HasSubstr("maxsim-shard 0."));
}

TEST_F(CliTest, WhatTheCommandLineAloneShowsToBeWrongExitsWithTwo) {
  const std::vector<std::string> whole = BuildArguments();
  const auto error = [&](std::vector<std::string> arguments) {
    const Outcome outcome = RunShard(arguments);
    EXPECT_EQ(outcome.code, 2) << ::testing::PrintToString(arguments);
    EXPECT_THAT(outcome.err, AllOf(::testing::StartsWith("maxsim-shard: "),
                                   ::testing::EndsWith(" (see maxsim-shard build --help)\n")));
    return outcome.err;
  };
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = whole;
    arguments.resize(arguments.size() - 2);  // takes --name away
    arguments.insert(arguments.end(), more.begin(), more.end());
    return error(arguments);
  };
  EXPECT_THAT(with({"--bogus"}), HasSubstr("--bogus"));
  EXPECT_THAT(with({"--seed", "-1"}), HasSubstr("--seed"));
  EXPECT_THAT(with({"--storage", "fp16"}), HasSubstr("--storage: fp16 not in {f16,bf16,f32,i8}"));
  EXPECT_THAT(with({"--storage", "f32", "--seed", "5"}), HasSubstr("--seed 5: only i8 and codes are rotated"));
  EXPECT_THAT(with({"--name", "a b"}), HasSubstr("maxsim-shard: --name: \"a b\" must be 1 to"));
  EXPECT_THAT(with({"--input", "x.npz"}), HasSubstr("give --input, or --tokens together with --lengths"));
  EXPECT_THAT(error({"build", "--output", "o", "--tokens", "t.npy"}), HasSubstr("give --input, or --tokens"));
  EXPECT_THAT(error({"build", "--output", "o"}), HasSubstr("give --input, or --tokens"));
  EXPECT_THAT(error({"build", "--output", "o", "--input", "x.npz", "--scales", "s.npy"}),
              HasSubstr("--scales goes with"));
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("out")));
}

TEST_F(CliTest, SizesAreWrittenAsInMaxsimdsConfiguration) {
  const auto build = [&](const std::string& size) {
    std::vector<std::string> arguments = BuildArguments();
    arguments.insert(arguments.end(), {"--max-shard-bytes", size});
    return RunShard(arguments);
  };
  for (const char* size : {"8192", "8KiB", "10kB", "1.5GiB", "4 GB", "18446744073709551615"}) {
    const Outcome outcome = build(size);
    EXPECT_EQ(outcome.code, 0) << size << ": " << outcome.err;
  }
  for (const std::string size : {"4G", "4g", "4gb", "4Gi", "512M", "5X", "4 bananas", ""}) {
    const Outcome outcome = build(size);
    EXPECT_EQ(outcome.code, 2) << size;
    EXPECT_THAT(outcome.err, HasSubstr(Cat("--max-shard-bytes: \"", size,
                                           "\" is not a size (such as 512MiB, 4GiB, 10GB or 1048576)")));
  }
  for (const char* size : {"0", "8191"}) {
    const Outcome outcome = build(size);
    EXPECT_EQ(outcome.code, 2) << size;
    EXPECT_THAT(outcome.err, HasSubstr("is too small; must be at least 8192")) << size;
  }
}

TEST_F(CliTest, FailuresExitWithOneAndNameTheCause) {
  const auto with = [&](const std::string& flag, const std::string& value) {
    std::vector<std::string> arguments = BuildArguments();
    const auto at = std::find(arguments.begin(), arguments.end(), flag);
    if (at == arguments.end()) {
      arguments.insert(arguments.end(), {flag, value});
    } else {
      *(at + 1) = value;
    }
    const Outcome outcome = RunShard(arguments);
    EXPECT_EQ(outcome.code, 1) << flag;
    return outcome.err;
  };
  EXPECT_THAT(with("--tokens", folder_.Path("none.npy")), HasSubstr("none.npy: No such file"));
  std::filesystem::copy_file(folder_.Path("docs.jsonl"), folder_.Path("tokens.npz"));
  EXPECT_THAT(with("--tokens", folder_.Path("tokens.npz")),
              AllOf(HasSubstr("tokens.npz: not a .npy file"), HasSubstr("; give an archive as --input\n")));
  EXPECT_THAT(with("--output", folder_.Path("tokens.npy")), HasSubstr("tokens.npy"));
  EXPECT_THAT(with("--seed", "5"), HasSubstr("--seed 5: only i8 and codes are rotated, but the storage is f16"))
      << "the input's";
  EXPECT_EQ(RunShard({"inspect", folder_.Path("nowhere")}).code, 1);
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("out/collection.json")));
}

TEST_F(CliTest, TheCranfieldCollectionBuildsInEveryStorageAndVerifies) {
  const std::string data = collection::CranfieldFolder();
  if (data.empty()) GTEST_SKIP() << "needs Cranfield";
  for (const std::string storage : {"f16", "bf16", "f32", "i8"}) {
    // In sanitized builds, which are not optimised, the other types would take half a minute.
    if (test::kSanitized && storage != "f16") continue;
    const std::string out = folder_.Path(storage);
    const Outcome build = RunShard({"build", "--tokens", JoinPath(data, "tokens.npy"), "--lengths",
                                    JoinPath(data, "lengths.npy"), "--ids", JoinPath(data, "docs.jsonl"), "--output",
                                    out, "--name", "cranfield", "--storage", storage, "--max-shard-bytes", "10MB"});
    ASSERT_EQ(build.code, 0) << build.err;
    const auto manifest = collection::ReadManifest(out);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_EQ(manifest->num_documents, 1398);
    EXPECT_EQ(manifest->num_tokens, 174339);
    EXPECT_GE(manifest->shards.size(), 2);
    EXPECT_EQ(RunShard({"verify", out}).code, 0);
  }
  // The stored F16 values must be exactly those of the input.
  const auto input = collection::NpyFile::Open(JoinPath(data, "tokens.npy"));
  ASSERT_TRUE(input.ok());
  const auto manifest = *collection::ReadManifest(folder_.Path("f16"));
  const char* expected = static_cast<const char*>(input->data());
  for (const collection::ShardEntry& entry : manifest.shards) {
    const auto shard =
        *collection::Shard::Open(folder_.Path("f16"), manifest, entry, collection::Access::kMapped, false);
    const auto count = static_cast<size_t>(entry.num_tokens * manifest.dim * 2);
    ASSERT_EQ(std::string_view(static_cast<const char*>(shard->documents().tokens), count),
              std::string_view(expected, count));
    expected += count;
  }
}

TEST_F(CliTest, PythonSafetensorsOpensAShard) {
  if (test::kSanitized) GTEST_SKIP() << "not with a sanitizer: its tests have no environments";
  const std::string python = StoresPython();
  if (python.empty()) GTEST_SKIP() << "MAXSIM_STORES_PYTHON names no Python with safetensors and NumPy";
  ASSERT_EQ(RunShard(BuildArguments()).code, 0);
  collection::WriteBytes(folder_.Path("read.py"), R"(
import sys, json
from safetensors import safe_open
from safetensors.numpy import load_file
path = sys.argv[1]
shard = load_file(path)
assert shard["tokens"].shape == (3, 8) and shard["tokens"].dtype == "float16" and (shard["tokens"] == 0.5).all()
assert shard["offsets"].tolist() == [0, 2, 3]
ids = bytes(shard["id_bytes"]).decode()
assert [ids[a:b] for a, b in zip(shard["id_offsets"], shard["id_offsets"][1:])] == ["a", "b"]
payload = bytes(shard["payload_bytes"])[shard["payload_offsets"][1]:shard["payload_offsets"][2]]
assert json.loads(payload) == {"title": "B"}
with safe_open(path, "numpy") as file:
    assert file.metadata() == {"format": "maxsim-shard", "format_version": "1"}
)");
  EXPECT_EQ(
      std::system(
          Cat(python, " ", folder_.Path("read.py"), " ", folder_.Path("out/shard-000001-00000.safetensors")).c_str()),
      0);
}

// The example in docs/use/documents.md and NumPy write these files. A build must be able to read all of them.
TEST_F(CliTest, WhatPythonWritesIsImported) {
  if (test::kSanitized) GTEST_SKIP() << "not with a sanitizer: its tests have no environments";
  const std::string python = StoresPython();
  if (python.empty()) GTEST_SKIP() << "MAXSIM_STORES_PYTHON names no Python with safetensors and NumPy";
  collection::WriteBytes(folder_.Path("write.py"), R"(
import sys, os
os.chdir(sys.argv[1])
import numpy as np
from safetensors.numpy import save_file
docs = [np.full((n, 16), n / 8, np.float16) for n in (3, 1, 2)]
save_file({"tokens": np.concatenate(docs), "lengths": np.array([len(d) for d in docs])}, "docs.safetensors")
np.savez("stored.npz", tokens=np.concatenate(docs), lengths=[3, 1, 2], ids=[7, 8, 9])
np.savez_compressed("deflated.npz", tokens=np.concatenate(docs).astype("f8"), lengths=np.array([3, 1, 2], "u4"), ids=[7, 8, 9])
np.save("fortran.npy", np.asfortranarray(np.concatenate(docs)))
np.save("big.npy", np.concatenate(docs).astype(">f4"))
)");
  ASSERT_EQ(std::system(Cat(python, " ", folder_.Path("write.py"), " ", folder_.path()).c_str()), 0);
  for (const char* input : {"docs.safetensors", "stored.npz", "deflated.npz"}) {
    const std::string out = folder_.Path(Cat("out-", input));
    const Outcome build = RunShard({"build", "--input", folder_.Path(input), "--output", out, "--name", "py"});
    ASSERT_EQ(build.code, 0) << build.err;
    EXPECT_EQ(RunShard({"verify", out}).code, 0);
    const auto manifest = *collection::ReadManifest(out);
    const auto shard = *collection::Shard::Open(out, manifest, manifest.shards[0], collection::Access::kMapped, true);
    EXPECT_EQ(shard->int_id(2), std::string(input) == "docs.safetensors" ? 2 : 9);
    const auto* tokens = static_cast<const uint16_t*>(shard->documents().tokens);
    EXPECT_EQ(F16ToF32(tokens[0]), 3 / 8.0f);
    EXPECT_EQ(F16ToF32(tokens[3 * 16]), 1 / 8.0f);
    EXPECT_EQ(F16ToF32(tokens[6 * 16 - 1]), 2 / 8.0f);
  }
  for (const auto& [file, message] : {std::pair("fortran.npy", "Fortran"), std::pair("big.npy", "big-endian")}) {
    std::vector<std::string> arguments = BuildArguments();
    arguments[2] = folder_.Path(file);
    const Outcome build = RunShard(arguments);
    EXPECT_EQ(build.code, 1);
    EXPECT_THAT(build.err, HasSubstr(message));
  }
}

}  // namespace
}  // namespace maxsim::shard_tool
