// Tests how configuration files are read, and that the example files are valid.
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/config/keys.h"
#include "server/config/load.h"
#include "tests/support/collection/corpus.h"
#include "tests/unit/server/config/config_fixture.h"

namespace maxsim::config {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(ConfigTest, AnUnknownKeyNamesFileLineAndTheNearestOne) {
  EXPECT_THAT(YamlError("grpc:\n  adress: 0.0.0.0:1\n"),
              "conf.yaml:2: unknown key grpc.adress (did you mean grpc.address?)");
  EXPECT_THAT(YamlError("\nbatchin:\n  x: 1\n"), "conf.yaml:2: unknown section batchin (did you mean batching?)");
  EXPECT_THAT(ErrorOf(LoadWith({"--engine.lane", "3"})),
              HasSubstr("unknown flag --engine.lane (did you mean --engine.lanes?)"));
}

TEST(ConfigTest, MalformedFilesAreErrorsWithALine) {
  EXPECT_THAT(YamlError("grpc: [1, 2\n"), HasSubstr("conf.yaml:"));
  EXPECT_THAT(YamlError("grpc: [1, 2\n"), HasSubstr("not YAML"));
  EXPECT_THAT(YamlError("- a\n"), HasSubstr("sections of keys"));
  EXPECT_THAT(YamlError("grpc: 7\n"), HasSubstr("section grpc must hold keys"));
  EXPECT_THAT(YamlError("grpc:\n  address: [a]\n"), HasSubstr("needs one value"));
  EXPECT_THAT(YamlError("grpc:\n  address: a:1\n  address: b:2\n"),
              HasSubstr("conf.yaml:3: key grpc.address appears twice"));
  Loaded loaded;
  EXPECT_TRUE(Apply("", &loaded).ok());
  EXPECT_TRUE(Apply("grpc:\n", &loaded).ok());
}

TEST(ConfigTest, ASecondDocumentIsAnErrorAndNotLeftOut) {
  const std::string wanted = "conf.yaml:3: a second YAML document begins here; the file must hold one";
  EXPECT_EQ(YamlError("grpc:\n  address: a:1\n---\nauth:\n  tokens_file: /tokens\n"), wanted);
  EXPECT_EQ(YamlError("grpc:\n  address: a:1\n--- {auth: {tokens_file: /tokens}}\n"), wanted);
  EXPECT_EQ(YamlError("---\n# nothing\n---\nauth:\n  tokens_file: /tokens\n"), wanted) << "after an empty one";
  EXPECT_EQ(YamlError("---\ngrpc:\n---\n"), wanted);
  EXPECT_THAT(YamlError("grpc:\n  address: a:1\n...\nauth:\n"), HasSubstr("a second YAML document"));
  Loaded loaded;
  ASSERT_TRUE(Apply("# where it listens\n---\ngrpc:\n  address: a:1\n...\n# the end\n", &loaded).ok());
  EXPECT_EQ(loaded.config.grpc.address, "a:1");
}

TEST(ConfigTest, AFileThatCannotBeReadIsNamed) {
  const auto loaded = LoadWith({"--config", "/no/such/file.yaml"});
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(ErrorOf(loaded), HasSubstr("--config: cannot read /no/such/file.yaml: No such file"));
  EXPECT_THAT(ErrorOf(LoadWith({}, {{"MAXSIM_CONFIG", "/no/such/file.yaml"}})),
              HasSubstr("MAXSIM_CONFIG: cannot read /no/such/file.yaml"));
  // This file can be opened, but reading it fails.
  EXPECT_THAT(ErrorOf(LoadWith({"--config", "/proc/self/mem"})), HasSubstr("--config: cannot read /proc/self/mem"));
  EXPECT_TRUE(LoadWith({"--config", "/dev/null"}).ok());
}

TEST(ConfigTest, APipeIntoWhichNobodyWritesIsNotAnEmptyConfiguration) {
  test::TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "maxsimd.yaml").c_str(), 0600), 0);
  EXPECT_THAT(ErrorOf(LoadWith({"--config", folder / "maxsimd.yaml"})), HasSubstr("a pipe that no process writes to"));
}

TEST(ConfigTest, AFolderInTheFilesPlaceIsNotAnEmptyConfiguration) {
  test::TemporaryFolder folder;
  const std::string path = folder / "maxsimd.yaml";
  std::filesystem::create_directory(path);
  EXPECT_EQ(LoadWith({"--config", path}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf(LoadWith({"--config", path})), "--config: " + path + " is a folder, not a file");
  EXPECT_EQ(ErrorOf(LoadWith({}, {{"MAXSIM_CONFIG", path}})), "MAXSIM_CONFIG: " + path + " is a folder, not a file");
}

TEST(ConfigTest, WhatYamlSpellsOtherwiseIsExplained) {
  EXPECT_EQ(YamlError("engine.lanes: 3\n"),
            "conf.yaml:1: unknown section engine.lanes (write \"engine:\" and below it, indented, \"lanes:\")");
  EXPECT_THAT(YamlError("grpc:\n  address: a:1\nengine:\n\tlanes: 3\n"),
              HasSubstr("(line 4 is indented with a tab; use spaces)"));
  EXPECT_THAT(YamlError("grpc: [1, 2\n"), Not(HasSubstr("tab")));
}

TEST(ConfigTest, TheExampleFileHoldsEveryKeyWithItsDefault) {
  Loaded loaded;
  const absl::Status status = ApplyYaml(test::ReadFile("config/maxsimd.yaml"), "config/maxsimd.yaml", loaded);
  ASSERT_TRUE(status.ok()) << status;
  for (const Key& key : Keys()) {
    EXPECT_TRUE(loaded.origins.count(key.name)) << key.name << " is missing";
    EXPECT_EQ(key.get(loaded.config), key.get(Config{})) << key.name;
  }
  EXPECT_THAT(loaded.config.collections, IsEmpty());
}

TEST(ConfigTest, TheOtherExamplesAreValid) {
  for (const char* path : {"config/gpu.yaml", "deploy/docker/maxsimd.yaml"}) {
    Loaded loaded;
    EXPECT_TRUE(ApplyYaml(test::ReadFile(path), path, loaded).ok()) << path;
    EXPECT_TRUE(Validate(loaded.config).ok()) << path;
  }
}

}  // namespace
}  // namespace maxsim::config
