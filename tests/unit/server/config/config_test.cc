// Tests the sources of configuration values, which source wins, and the printed configuration.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/config/keys.h"
#include "server/config/load.h"
#include "tests/support/collection/corpus.h"
#include "tests/unit/server/config/config_fixture.h"

namespace maxsim::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ConfigTest, WithoutAnySourceEveryValueIsItsDefault) {
  const auto loaded = LoadWith({});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const Key& key : Keys()) EXPECT_EQ(key.get(loaded->config), key.get(Config{})) << key.name;
  EXPECT_THAT(loaded->origins, IsEmpty());
}

TEST(ConfigTest, AFlagWinsOverTheEnvironmentAndTheEnvironmentOverTheFile) {
  test::TemporaryFolder folder;
  test::WriteFile(folder / "c.yaml", "engine:\n  lanes: 3\n  max_dim: 64\nhttp:\n  threads: 5\n");
  const auto loaded = LoadWith({"--config", folder / "c.yaml", "--engine.lanes=5"},
                               {{"MAXSIM_ENGINE_LANES", "4"}, {"MAXSIM_ENGINE_MAX_DIM", "128"}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.engine.num_lanes, 5);
  EXPECT_EQ(loaded->config.engine.executor.max_dim, 128);
  EXPECT_EQ(loaded->config.http.threads, 5);
  EXPECT_EQ(loaded->origins.at("engine.lanes"), "--engine.lanes");
  EXPECT_EQ(loaded->origins.at("engine.max_dim"), "MAXSIM_ENGINE_MAX_DIM");
  EXPECT_EQ(loaded->origins.at("http.threads"), folder / "c.yaml:5");
}

TEST(ConfigTest, EveryKeyCanBeSetByFlagVariableAndFileAndComesBackTheSame) {
  for (const Key& key : Keys()) {
    const std::string value = key.get(Config{});
    EXPECT_TRUE(LoadWith({"--" + key.name, value}).ok()) << key.name;
    EXPECT_TRUE(LoadWith({}, {{EnvironmentName(key.name), value}}).ok()) << key.name;
  }
  const auto defaults = LoadWith({});
  Loaded again;
  ASSERT_TRUE(Apply(ToYaml(*defaults), &again).ok());
  for (const Key& key : Keys()) {
    EXPECT_EQ(key.get(again.config), key.get(Config{})) << key.name;
    EXPECT_TRUE(again.origins.count(key.name)) << key.name;
  }
}

TEST(ConfigTest, HelpNamesEveryKeyItsDefaultAndItsVariable) {
  const std::string help = HelpText();
  for (const Key& key : Keys()) {
    EXPECT_THAT(help, HasSubstr("--" + key.name + " "));
    EXPECT_THAT(help, HasSubstr(EnvironmentName(key.name)));
    EXPECT_THAT(help, HasSubstr(key.help));
  }
}

TEST(ConfigTest, TheCommandLineIsReadStrictly) {
  EXPECT_THAT(ErrorOf(LoadWith({"serve"})), HasSubstr("unexpected argument \"serve\""));
  EXPECT_THAT(ErrorOf(LoadWith({"--engine.lanes"})), HasSubstr("--engine.lanes needs a value"));
  EXPECT_THAT(ErrorOf(LoadWith({"--verson"})), HasSubstr("unknown flag --verson (did you mean --version?)"));
  EXPECT_THAT(ErrorOf(LoadWith({"--help=1"})), HasSubstr("--help takes no value"));
  EXPECT_EQ(LoadWith({"--engine.lanes=nonsense", "--help"})->action, Action::kHelp);
  EXPECT_EQ(LoadWith({"--check-config"})->action, Action::kCheckConfig);
  EXPECT_EQ(LoadWith({"--backend", "cpu"})->config.backend.kind, BackendKind::kCpu);
}

TEST(ConfigTest, AMisspeltVariableIsWarnedOfAndOthersAreNot) {
  const auto loaded = LoadWith({"--admin.enabled=false"}, {{"MAXSIM_ENGINE_LANE", "3"},
                                                           {"MAXSIM_SERVER", "host:1"},
                                                           {"MAXSIM_SHARED_DATA", "/x"},
                                                           {"MAXSIM_SERVICE_HOST", "10.0.0.1"},
                                                           {"MAXSIM_PORT_7070_TCP_ADDR", "10.0.0.1"}});
  ASSERT_TRUE(loaded.ok());
  EXPECT_THAT(loaded->warnings,
              ElementsAre(HasSubstr("MAXSIM_ENGINE_LANE is not a key; did you mean MAXSIM_ENGINE_LANES?")));
}

TEST(ConfigTest, AnEmptyVariableCountsAsNotSet) {
  test::TemporaryFolder folder;
  test::WriteFile(folder / "c.yaml", "auth:\n  tokens_file: /tokens\n");
  const auto loaded = LoadWith({"--config", folder / "c.yaml"},
                               {{"MAXSIM_AUTH_TOKENS_FILE", ""}, {"MAXSIM_ENGINE_LANES", ""}, {"MAXSIM_CONFIG", ""}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.auth.tokens_file, "/tokens");
  EXPECT_EQ(LoadWith({"--config", folder / "c.yaml", "--auth.tokens_file="})->config.auth.tokens_file, "");
}

TEST(ConfigTest, PrintedConfigurationsReadBackAndNameTheOrigins) {
  const auto loaded = LoadWith({"--store.allowed_roots=/a,/b c", "--collection=x=/data/x y,disk", "--http.address="});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const std::string yaml = ToYaml(*loaded);
  EXPECT_THAT(yaml, HasSubstr("allowed_roots: [/a, \"/b c\"]  # --store.allowed_roots"));
  Loaded again;
  ASSERT_TRUE(Apply(yaml, &again).ok()) << yaml;
  EXPECT_EQ(again.config.collections, loaded->config.collections);
  EXPECT_EQ(again.config.allowed_roots, loaded->config.allowed_roots);
  EXPECT_EQ(again.config.http.address, "");
}

TEST(ConfigTest, PrintedConfigurationsNameTheOriginOfEachCollection) {
  const test::TemporaryFolder folder;
  test::WriteFile(folder / "c.yaml", "collections:\n  - name: a\n    path: /a\n  - name: b\n    path: /b\n");
  const auto loaded = LoadWith({"--config", folder / "c.yaml", "--collection=b=/c"}, {{"MAXSIM_COLLECTIONS", "d=/d"}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const std::string yaml = ToYaml(*loaded);
  EXPECT_THAT(yaml, HasSubstr(absl::StrCat("- name: a  # ", folder / "c.yaml", ":2\n    path: /a\n")));
  EXPECT_THAT(yaml, HasSubstr("- name: b  # --collection\n    path: /c\n"));
  EXPECT_THAT(yaml, HasSubstr("- name: d  # MAXSIM_COLLECTIONS\n"));
}

TEST(ConfigTest, AFlagCountsAsGivenLast) {
  EXPECT_EQ(LoadWith({"--engine.lanes=3", "--engine.lanes=4"})->config.engine.num_lanes, 4);
}

}  // namespace
}  // namespace maxsim::config
