// Tests where values come from, which one wins, and what a wrong one is told.
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/maxsim.h"
#include "server/config/keys.h"
#include "server/config/load.h"
#include "tests/support/collection/corpus.h"

namespace maxsim::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

using Variables = std::map<std::string, std::string>;

absl::StatusOr<Loaded> LoadWith(const std::vector<std::string>& args, const Variables& variables = {}) {
  std::vector<std::string> names;
  for (const auto& [name, value] : variables) names.push_back(name);
  return Load(
      args,
      [&](const char* name) {
        const auto it = variables.find(name);
        return it == variables.end() ? nullptr : it->second.c_str();
      },
      names);
}

std::string ErrorOf(const absl::StatusOr<Loaded>& loaded) { return std::string(loaded.status().message()); }

absl::Status Apply(const std::string& yaml, Loaded* loaded) { return ApplyYaml(yaml, "conf.yaml", *loaded); }

std::string YamlError(const std::string& yaml) {
  Loaded loaded;
  return std::string(Apply(yaml, &loaded).message());
}

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

TEST(ConfigTest, AnUnknownKeyNamesFileLineAndTheNearestOne) {
  EXPECT_THAT(YamlError("grpc:\n  adress: 0.0.0.0:1\n"),
              "conf.yaml:2: unknown key grpc.adress (did you mean grpc.address?)");
  EXPECT_THAT(YamlError("\nbatchin:\n  x: 1\n"), "conf.yaml:2: unknown section batchin (did you mean batching?)");
  EXPECT_THAT(ErrorOf(LoadWith({"--engine.lane", "3"})),
              HasSubstr("unknown flag --engine.lane (did you mean --engine.lanes?)"));
}

TEST(ConfigTest, AValueOutOfRangeNamesKeyValueAndLimit) {
  EXPECT_EQ(YamlError("engine:\n  lanes: 99\n"), "conf.yaml:2: engine.lanes: \"99\" is more than the limit 16");
  EXPECT_EQ(YamlError("engine:\n  lanes: 0\n"), "conf.yaml:2: engine.lanes: \"0\" is less than the limit 1");
  EXPECT_THAT(ErrorOf(LoadWith({"--http.threads", "many"})),
              HasSubstr("--http.threads: \"many\" is not a whole number"));
  EXPECT_THAT(ErrorOf(LoadWith({}, {{"MAXSIM_LOG_FORMAT", "xml"}})),
              "MAXSIM_LOG_FORMAT: log.format: \"xml\" is not one of text, json");
  EXPECT_THAT(ErrorOf(LoadWith({"--server.shutdown_delay", "2h"})), HasSubstr("more than the limit 1h"));
}

TEST(ConfigTest, TheClientKeyIsAMetadataKeyThatIsText) {
  const auto loaded = LoadWith({"--batching.client_key", "x-tenant"});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.client_key, "x-tenant");
  EXPECT_EQ(LoadWith({"--batching.client_key="})->config.client_key, "");
  for (const char* wrong : {"X-Client-Id", "a b", "ids-bin", "grpc-timeout", "x:y"}) {
    EXPECT_THAT(ErrorOf(LoadWith({"--batching.client_key", wrong})),
                HasSubstr("\"" + std::string(wrong) + "\" is not a metadata key"));
  }
}

TEST(ConfigTest, TheTimeInTheQueueMayBeUnbounded) {
  EXPECT_EQ(LoadWith({})->config.batching.max_queue_time, absl::Seconds(1));
  EXPECT_EQ(LoadWith({"--batching.max_queue_time", "0"})->config.batching.max_queue_time, absl::ZeroDuration());
  EXPECT_EQ(LoadWith({"--batching.max_queue_time=20ms"})->config.batching.max_queue_time, absl::Milliseconds(20));
}

TEST(ConfigTest, MalformedFilesAreErrorsWithALine) {
  EXPECT_THAT(YamlError("grpc: [1, 2\n"), HasSubstr("conf.yaml:"));
  EXPECT_THAT(YamlError("grpc: [1, 2\n"), HasSubstr("not YAML"));
  EXPECT_THAT(YamlError("- a\n"), HasSubstr("sections of keys"));
  EXPECT_THAT(YamlError("grpc: 7\n"), HasSubstr("section grpc wants keys"));
  EXPECT_THAT(YamlError("grpc:\n  address: [a]\n"), HasSubstr("wants one value"));
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
  // This file can be opened, and fails when it is read.
  EXPECT_THAT(ErrorOf(LoadWith({"--config", "/proc/self/mem"})), HasSubstr("--config: cannot read /proc/self/mem"));
  EXPECT_TRUE(LoadWith({"--config", "/dev/null"}).ok());
}

TEST(ConfigTest, APipeIntoWhichNobodyWritesIsNotAnEmptyConfiguration) {
  test::TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "maxsimd.yaml").c_str(), 0600), 0);
  EXPECT_THAT(ErrorOf(LoadWith({"--config", folder / "maxsimd.yaml"})), HasSubstr("a pipe into which nobody writes"));
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

TEST(ConfigTest, CollectionsComeFromTheFileAndFlagsReplaceThemByName) {
  test::TemporaryFolder folder;
  test::WriteFile(folder / "c.yaml",
                  "collections:\n  - name: a\n    path: /a\n  - {name: b, path: /b, residency: disk}\n");
  const auto loaded = LoadWith({"--config", folder / "c.yaml", "--collection", "b=/other", "--collection=c=/c,host"});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  using C = CollectionConfig;
  EXPECT_THAT(loaded->config.collections,
              ElementsAre(C{"a", "/a", store::Residency::kAuto}, C{"b", "/other", store::Residency::kAuto},
                          C{"c", "/c", store::Residency::kHost}));
  const auto from_environment = LoadWith({}, {{"MAXSIM_COLLECTIONS", "x=/x;y=/y=z,w,gpu"}});
  ASSERT_TRUE(from_environment.ok());
  EXPECT_THAT(from_environment->config.collections,
              ElementsAre(C{"x", "/x", store::Residency::kAuto}, C{"y", "/y=z,w", store::Residency::kGpu}));
}

TEST(ConfigTest, CollectionsMayBeCopiedToEveryDevice) {
  test::TemporaryFolder folder;
  test::WriteFile(folder / "c.yaml",
                  "collections:\n  - {name: a, path: /a, replicate: true}\n  - {name: b, path: /b, replicate: false}\n"
                  "  - {name: c, path: /c}\n");
  const auto loaded = LoadWith({"--config", folder / "c.yaml", "--collection", "d=/d,host,replicate", "--collection",
                                "e=/e,x,replicate", "--collection", "f=/f,replicate,gpu"});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  using C = CollectionConfig;
  using R = store::Residency;
  using store::Replication;
  EXPECT_THAT(loaded->config.collections,
              ElementsAre(C{"a", "/a", R::kAuto, Replication::kOn}, C{"b", "/b", R::kAuto, Replication::kOff},
                          C{"c", "/c", R::kAuto, Replication::kAuto}, C{"d", "/d", R::kHost, Replication::kOn},
                          C{"e", "/e,x", R::kAuto, Replication::kOn}, C{"f", "/f", R::kGpu, Replication::kOn}));
  Loaded again;
  ASSERT_TRUE(Apply(ToYaml(*loaded), &again).ok());
  EXPECT_EQ(again.config.collections, loaded->config.collections);
  EXPECT_THAT(YamlError("collections:\n  - name: a\n    path: /a\n    replicate: often\n"),
              HasSubstr("conf.yaml:4: collections: replicate \"often\" is not one of auto, true, false"));
}

TEST(ConfigTest, CollectionsMayBeLive) {
  test::TemporaryFolder folder;
  test::WriteFile(folder / "c.yaml",
                  "collections:\n  - {name: a, path: /a, live: true}\n  - {name: b, path: /b, live: false}\n"
                  "  - {name: c, path: /c}\n");
  const auto loaded = LoadWith({"--config", folder / "c.yaml", "--collection", "d=/d,live", "--collection",
                                "e=/e,x,live,gpu,replicate", "--collection", "a=/moved"});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  using C = CollectionConfig;
  using R = store::Residency;
  using store::Replication;
  EXPECT_THAT(loaded->config.collections, ElementsAre(C{"a", "/moved"}, C{"b", "/b"}, C{"c", "/c"},
                                                      C{"d", "/d", R::kAuto, Replication::kAuto, /*live=*/true},
                                                      C{"e", "/e,x", R::kGpu, Replication::kOn, /*live=*/true}));
  Loaded again;
  ASSERT_TRUE(Apply(ToYaml(*loaded), &again).ok());
  EXPECT_EQ(again.config.collections, loaded->config.collections);
  EXPECT_EQ(YamlError("collections:\n  - name: a\n    path: /a\n    live: yes\n"),
            "conf.yaml:4: collections: live \"yes\" is not true or false");
  EXPECT_THAT(ErrorOf(LoadWith({"--collection", "a=/x,live,live"})), HasSubstr("\",live\" is neither"));
}

TEST(ConfigTest, LiveCollectionsHaveTheirKeys) {
  const auto loaded = LoadWith(
      {"--live.segment_bytes=1MiB", "--live.max_segment_bytes=2GiB", "--live.compact=false", "--live.compact_after=0"},
      {{"MAXSIM_LIVE_COMPACT_AT_TOMBSTONE_SHARE", "0.05"}, {"MAXSIM_LIVE_COMPACT_BYTES_PER_SECOND", "0"}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const live::LiveOptions& options = loaded->config.live;
  EXPECT_EQ(options.segment_bytes, int64_t{1} << 20);
  EXPECT_EQ(options.max_segment_bytes, int64_t{2} << 30);
  EXPECT_FALSE(options.compact);
  EXPECT_DOUBLE_EQ(options.compact_at_tombstone_share, 0.05);
  EXPECT_EQ(options.compact_after, absl::ZeroDuration());
  EXPECT_EQ(options.compact_bytes_per_second, 0);
  Loaded again;
  ASSERT_TRUE(Apply(ToYaml(*loaded), &again).ok());
  EXPECT_DOUBLE_EQ(again.config.live.compact_at_tombstone_share, 0.05);
}

TEST(ConfigTest, WrongKeysOfLiveCollectionsNameKeyValueAndLimit) {
  EXPECT_EQ(YamlError("live:\n  compact_at_tombstone_share: 0\n"),
            "conf.yaml:2: live.compact_at_tombstone_share: \"0\" is less than the limit 0.01");
  EXPECT_EQ(YamlError("live:\n  compact_at_tombstone_share: 20\n"),
            "conf.yaml:2: live.compact_at_tombstone_share: \"20\" is more than the limit 1");
  EXPECT_THAT(YamlError("live:\n  compact_at_tombstone_share: 20%\n"), HasSubstr("\"20%\" is not a number"));
  EXPECT_THAT(YamlError("live:\n  segment_bytes: 4KiB\n"), HasSubstr("\"4KiB\" is less than the limit 1MiB"));
  EXPECT_THAT(YamlError("live:\n  compact_after: 721h\n"), HasSubstr("more than the limit 720h"));
  EXPECT_THAT(ErrorOf(LoadWith({"--live.max_segment_bytes=32MiB"})),
              HasSubstr("live.segment_bytes is 67108864, more than live.max_segment_bytes, which is 33554432"));
  EXPECT_THAT(ErrorOf(LoadWith({"--live.max_segment_bytes=256MiB"})),
              HasSubstr("live.compact_at_bytes is 536870912, more than live.max_segment_bytes"));
  EXPECT_TRUE(LoadWith({"--live.max_segment_bytes=256MiB", "--live.compact=false"}).ok());
}

TEST(ConfigTest, TakesAStreamOfNatsForLiveCollections) {
  const auto loaded = LoadWith({"--live.log=nats", "--nats.url=nats://a:4222,tls://b:4222", "--nats.replicas=1",
                                "--nats.stream_prefix=team_a", "--nats.timeout=2s"});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.live.log, live::LogKind::kNats);
  EXPECT_EQ(loaded->config.live.nats.url, "nats://a:4222,tls://b:4222");
  EXPECT_EQ(loaded->config.live.nats.replicas, 1);
  EXPECT_EQ(loaded->config.live.nats.stream_prefix, "team_a");
  EXPECT_EQ(loaded->config.live.nats.timeout, absl::Seconds(2));
  EXPECT_THAT(ErrorOf(LoadWith({"--live.log=nats"})), HasSubstr("live.log is nats, which wants nats.url"));
  EXPECT_THAT(ErrorOf(LoadWith({"--live.log=kafka"})), HasSubstr("\"kafka\" is not one of local, nats"));
  const std::vector<std::string> nats = {"--live.log=nats", "--nats.url=nats://a:4222"};
  const auto with = [&](const std::string& flag) {
    std::vector<std::string> flags = nats;
    flags.push_back(flag);
    return ErrorOf(LoadWith(flags));
  };
  EXPECT_THAT(with("--nats.replicas=4"), HasSubstr("nats.replicas: \"4\" is not 1, 3 or 5"));
  EXPECT_THAT(with("--nats.replicas=7"), HasSubstr("\"7\" is more than the limit 5"));
  EXPECT_THAT(with("--nats.timeout=99ms"), HasSubstr("nats.timeout: \"99ms\" is less than the limit 100ms"));
  EXPECT_THAT(with("--nats.timeout=61s"), HasSubstr("is more than the limit 1m"));
  for (const char* const prefix : {"", "a.b", "a b", "a*", "a+b"}) {
    EXPECT_THAT(with(absl::StrCat("--nats.stream_prefix=", prefix)), HasSubstr("is not 1 to 32 of A-Z a-z 0-9 _ -"));
  }
  for (const char* const url : {"a:4222", "http://a", "nats://a,", "nats://a, nats://b"}) {
    const std::string message = with(absl::StrCat("--nats.url=", url));
    EXPECT_THAT(message, HasSubstr("nats.url: is not a list of")) << url;
  }
}

TEST(ConfigTest, APartitionIsOneOfSoManyOrARangeOfSlots) {
  EXPECT_EQ(LoadWith({})->config.store.partition, std::nullopt);
  const auto loaded = LoadWith({"--cluster.partition=1/3"});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.store.partition, (collection::SlotRange{1365, 2730}));
  EXPECT_THAT(ToYaml(*loaded), HasSubstr("partition: 1365-2729"));
  Loaded again;
  ASSERT_TRUE(Apply(ToYaml(*loaded), &again).ok());
  EXPECT_EQ(again.config.store.partition, loaded->config.store.partition);
  EXPECT_EQ(LoadWith({}, {{"MAXSIM_CLUSTER_PARTITION", "7-7"}})->config.store.partition, (collection::SlotRange{7, 8}));
  EXPECT_EQ(LoadWith({"--cluster.partition="}, {{"MAXSIM_CLUSTER_PARTITION", "7-7"}})->config.store.partition,
            std::nullopt);
  EXPECT_EQ(YamlError("cluster:\n  partition: 3/3\n"),
            "conf.yaml:2: cluster.partition: \"3/3\": partition 3, the limits are 0 .. 2");
  EXPECT_THAT(YamlError("cluster:\n  partition: 5\n"), HasSubstr("\"5\" is neither I/N, such as 0/3, nor FIRST-LAST"));
}

TEST(ConfigTest, DevicesAreAListOfNumbersOrAll) {
  EXPECT_THAT(LoadWith({})->config.backend.devices, ElementsAre(0));
  EXPECT_THAT(LoadWith({"--backend.devices=2,0,7"})->config.backend.devices, ElementsAre(2, 0, 7));
  EXPECT_THAT(LoadWith({"--backend.devices=all"})->config.backend.devices, IsEmpty());
  for (const char* yaml : {"backend:\n  devices: [3, 1]\n", "backend:\n  devices: 3,1\n"}) {
    Loaded loaded;
    ASSERT_TRUE(Apply(yaml, &loaded).ok()) << yaml;
    EXPECT_THAT(loaded.config.backend.devices, ElementsAre(3, 1));
  }
  Loaded all;
  ASSERT_TRUE(Apply("backend:\n  devices: all\n", &all).ok());
  EXPECT_THAT(all.config.backend.devices, IsEmpty());
  Loaded again;
  ASSERT_TRUE(Apply(ToYaml(all), &again).ok());
  EXPECT_THAT(again.config.backend.devices, IsEmpty());
  EXPECT_THAT(ErrorOf(LoadWith({"--backend.devices=0,1,0"})), HasSubstr("\"0,1,0\" names device 0 twice"));
  EXPECT_THAT(ErrorOf(LoadWith({"--backend.devices="})),
              HasSubstr("\"\" is not all, or numbers of 0 to 1023 with commas between them"));
  EXPECT_THAT(ErrorOf(LoadWith({"--backend.devices=0,x"})), HasSubstr("\"0,x\" is not all, or numbers"));
  EXPECT_THAT(ErrorOf(LoadWith({"--backend.devices=0,1024"})),
              HasSubstr("\"0,1024\" is not all, or numbers of 0 to 1023"));
  EXPECT_THAT(YamlError("backend:\n  device: 1\n"), HasSubstr("did you mean backend.devices?"));
}

TEST(ConfigTest, WhatADeviceLossDoesMayBeLeftToTheNumberOfDevices) {
  EXPECT_EQ(LoadWith({})->config.on_device_loss, std::nullopt);
  EXPECT_EQ(LoadWith({"--engine.on_device_loss=exit"})->config.on_device_loss, store::OnDeviceLoss::kExit);
  EXPECT_EQ(LoadWith({"--engine.on_device_loss=degrade"})->config.on_device_loss, store::OnDeviceLoss::kDegrade);
  EXPECT_THAT(ErrorOf(LoadWith({"--engine.on_device_loss=panic"})), HasSubstr("is not one of auto, exit, degrade"));
}

TEST(ConfigTest, WrongCollectionsAreRefused) {
  EXPECT_THAT(ErrorOf(LoadWith({"--collection", "nopath"})), HasSubstr("NAME=PATH"));
  EXPECT_THAT(ErrorOf(LoadWith({"--collection", "a b=/x"})), HasSubstr("name \"a b\""));
  EXPECT_THAT(ErrorOf(LoadWith({"--collection", "..=/x"})), HasSubstr("name \"..\""));
  EXPECT_THAT(ErrorOf(LoadWith({"--collection", "a="})), HasSubstr("no path"));
  EXPECT_THAT(ErrorOf(LoadWith({"--collection", "a=/x,warm"})),
              StartsWith("--collection: collection a: \",warm\" is neither a residency (auto, gpu, host, disk) nor "
                         "replicate or live"));
  EXPECT_THAT(ErrorOf(LoadWith({"--collection", "a=/x,disk,gpu"})), HasSubstr("\",disk\" is neither"));
  EXPECT_THAT(ErrorOf(LoadWith({"--backend", "cpu", "--collection", "a=/x,gpu"})),
              HasSubstr("collection a: residency is gpu, and backend.kind is cpu"));
  EXPECT_THAT(YamlError("collections:\n  - name: a\n    path: /a\n    residence: gpu\n"),
              HasSubstr("conf.yaml:4: unknown key collections.residence (did you mean residency?)"));
  EXPECT_THAT(YamlError("collections:\n  - name: a\n    path: /a\n    residency: moon\n"), HasSubstr("\"moon\""));
  EXPECT_THAT(YamlError("collections:\n  - {name: a, path: /a, name: b}\n"),
              HasSubstr("conf.yaml:2: collections: name appears twice"));
  EXPECT_THAT(YamlError("collections:\n  - {name: a, path: /a}\n  - {name: a, path: /b}\n"),
              HasSubstr("conf.yaml:3: collections: name a appears twice"));
  EXPECT_EQ(ErrorOf(LoadWith({"--collection", "a=/x", "--collection", "a=/y"})), "--collection: name a appears twice");
  EXPECT_EQ(ErrorOf(LoadWith({}, {{"MAXSIM_COLLECTIONS", "a=/x;a=/y"}})), "MAXSIM_COLLECTIONS: name a appears twice");
  EXPECT_TRUE(LoadWith({"--collection", "a=/x"}, {{"MAXSIM_COLLECTIONS", "a=/y"}}).ok());
}

TEST(ConfigTest, KeysThatContradictOneAnotherAreRefused) {
  EXPECT_THAT(ErrorOf(LoadWith({"--limits.max_top_k=5"})),
              HasSubstr("limits.default_top_k is 10, more than limits.max_top_k"));
  EXPECT_THAT(ErrorOf(LoadWith({"--tls.cert_file=c.pem"})), HasSubstr("tls.cert_file and tls.key_file"));
  EXPECT_THAT(ErrorOf(LoadWith({"--tls.client_ca_file=c.pem"})), HasSubstr("tls.client_ca_file wants"));
  EXPECT_THAT(ErrorOf(LoadWith({"--http.tls=all"})), HasSubstr("http.tls wants tls.cert_file and tls.key_file"));
  EXPECT_THAT(ErrorOf(LoadWith({"--engine.max_query_tokens=8"})), HasSubstr("limits.max_query_tokens is"));
  EXPECT_EQ(ErrorOf(LoadWith({"--grpc.address=0.0.0.0:7070", "--http.address=127.0.0.1:7070"})),
            "http.address is 127.0.0.1:7070, and grpc.address 0.0.0.0:7070: each wants a port of its own");
  EXPECT_TRUE(LoadWith({"--grpc.address=127.0.0.2:7070", "--http.address=127.0.0.1:7070"}).ok());
  EXPECT_TRUE(LoadWith({"--grpc.address=127.0.0.1:0", "--http.address=127.0.0.1:0"}).ok());
  EXPECT_TRUE(LoadWith({"--grpc.unix_socket=/" + std::string(106, 's')}).ok());
  EXPECT_EQ(ErrorOf(LoadWith({"--grpc.unix_socket=/" + std::string(107, 's')})),
            "grpc.unix_socket: /" + std::string(107, 's') + " has 108 bytes, more than the limit 107");
  EXPECT_THAT(ErrorOf(LoadWith({"--grpc.unix_socket=/run/%41"})), HasSubstr("grpc.unix_socket: /run/%41 holds a %"));
  EXPECT_THAT(ErrorOf(LoadWith({"--backend.cpu_isa=mmx"})),
              HasSubstr("backend.cpu_isa: \"mmx\" is not one of amx, avx512bf16,"));
  EXPECT_TRUE(LoadWith({"--backend.cpu_isa=avx2"}).ok());
  for (const std::string& isa : CpuIsas()) EXPECT_TRUE(LoadWith({"--backend.cpu_isa=" + isa}).ok()) << isa;
}

TEST(ConfigTest, TheCommandLineIsReadStrictly) {
  EXPECT_THAT(ErrorOf(LoadWith({"serve"})), HasSubstr("unexpected argument \"serve\""));
  EXPECT_THAT(ErrorOf(LoadWith({"--engine.lanes"})), HasSubstr("--engine.lanes wants a value"));
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

TEST(ConfigTest, TheHttpPortWantsTlsWhereThereIsACertificate) {
  const auto tls_with = [](const std::string& value) {
    return HttpTlsOf(LoadWith({"--tls.cert_file=c", "--tls.key_file=k", "--http.tls=" + value})->config);
  };
  EXPECT_EQ(HttpTlsOf(LoadWith({})->config), HttpTls::kOff);
  EXPECT_EQ(tls_with("auto"), HttpTls::kApi);
  EXPECT_EQ(tls_with("off"), HttpTls::kOff);
  EXPECT_EQ(tls_with("api"), HttpTls::kApi);
  EXPECT_EQ(tls_with("all"), HttpTls::kAll);
}

TEST(ConfigTest, WhatLeavesTheServerOpenIsWarnedOf) {
  EXPECT_THAT(LoadWith({})->warnings, ElementsAre(HasSubstr("grpc.address 0.0.0.0:7070 may reload and unload")));
  EXPECT_THAT(LoadWith({"--store.allowed_roots=/srv"})->warnings,
              ElementsAre(HasSubstr("grpc.address 0.0.0.0:7070 may load, reload and unload")));
  for (const char* closed : {"--grpc.address=127.0.0.1:7070", "--grpc.address=[::1]:7070", "--auth.tokens_file=/tokens",
                             "--auth.admin_tokens_file=/tokens", "--admin.enabled=false"}) {
    EXPECT_THAT(LoadWith({closed})->warnings, IsEmpty()) << closed;
  }
  const std::vector<std::string> tls = {"--tls.cert_file=c", "--tls.key_file=k", "--tls.client_ca_file=a"};
  EXPECT_THAT(LoadWith(tls)->warnings, IsEmpty());
  EXPECT_THAT(LoadWith({tls[0], tls[1], tls[2], "--http.tls=off"})->warnings,
              ElementsAre(HasSubstr("http.address 0.0.0.0:7071 is plain text")));
  EXPECT_THAT(LoadWith({tls[0], tls[1], tls[2], "--http.address="})->warnings, IsEmpty());
  EXPECT_THAT(LoadWith({tls[0], tls[1], tls[2], "--http.address=", "--grpc.unix_socket=/s"})->warnings,
              ElementsAre(HasSubstr("grpc.unix_socket /s asks for no certificate")));
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

TEST(ConfigTest, TracesAreOffUntilTheyHaveACollector) {
  const auto plain = LoadWith({});
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->config.tracing.endpoint, "");
  const auto loaded = LoadWith({"--tracing.endpoint=https://collector:4317", "--tracing.sample_ratio=0.5"},
                               {{"MAXSIM_TRACING_SERVICE_NAME", "ranker"}, {"MAXSIM_TRACING_MAX_QUEUED_SPANS", "1"}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.tracing.endpoint, "https://collector:4317");
  EXPECT_EQ(loaded->config.tracing.sample_ratio, 0.5);
  EXPECT_EQ(loaded->config.tracing.service_name, "ranker");
  EXPECT_EQ(loaded->config.tracing.max_queued_spans, 1);
}

TEST(ConfigTest, WrongKeysOfTracesNameKeyValueAndLimit) {
  EXPECT_THAT(ErrorOf(LoadWith({"--tracing.endpoint=collector"})),
              HasSubstr("tracing.endpoint: \"collector\" is not host:port"));
  EXPECT_THAT(ErrorOf(LoadWith({"--tracing.sample_ratio=1.01"})),
              HasSubstr("tracing.sample_ratio: \"1.01\" is more than the limit 1"));
  EXPECT_THAT(ErrorOf(LoadWith({"--tracing.sample_ratio=-1"})), HasSubstr("tracing.sample_ratio: \"-1\""));
  EXPECT_THAT(ErrorOf(LoadWith({"--tracing.max_queued_spans=0"})),
              HasSubstr("tracing.max_queued_spans: \"0\" is less than the limit 1"));
  EXPECT_THAT(ErrorOf(LoadWith({"--tracing.service_name="})), HasSubstr("a name of 0 bytes, and 1 to 128"));
  EXPECT_TRUE(LoadWith({"--tracing.service_name=" + std::string(128, 'n')}).ok());
  EXPECT_THAT(ErrorOf(LoadWith({"--tracing.service_name=" + std::string(129, 'n')})),
              HasSubstr("tracing.service_name: a name of 129 bytes"));
  EXPECT_THAT(ErrorOf(LoadWith({"--tracing.service_name=\xff"})), HasSubstr("is not UTF-8"));
}

TEST(ConfigTest, AnEncoderIsCheckedAsAWhole) {
  const auto error = [](std::vector<std::string> more) {
    std::vector<std::string> args = {"--encoder.url", "https://encoder.test:8443/base"};
    args.insert(args.end(), more.begin(), more.end());
    return ErrorOf(LoadWith(args));
  };
  EXPECT_EQ(error({}), "");
  EXPECT_THAT(error({"--encoder.url", "encoder:80"}), HasSubstr("encoder.url: \"encoder:80\" is not http://host"));
  EXPECT_THAT(error({"--encoder.dialect", "x"}), HasSubstr("encoder.dialect: \"x\" is not one of maxsim, vllm"));
  EXPECT_THAT(error({"--encoder.max_batch_texts", "0"}), HasSubstr("encoder.max_batch_texts: \"0\" is less than"));
  EXPECT_THAT(error({"--encoder.window", "2s"}), HasSubstr("encoder.window: \"2s\" is more than the limit 1s"));
  EXPECT_THAT(error({"--encoder.timeout", "0"}), HasSubstr("encoder.timeout"));
  EXPECT_THAT(error({"--encoder.dim", "4"}), HasSubstr("encoder.dim: \"4\" is neither 0 nor 8 to 4096"));
  EXPECT_THAT(error({"--encoder.dim", "5000"}), HasSubstr("encoder.dim: \"5000\" is more than"));
  EXPECT_THAT(error({"--encoder.model", std::string(2000, 'm')}), HasSubstr("2000 bytes is more than the limit 1024"));
  EXPECT_THAT(error({"--encoder.query_prefix", "q: "}), HasSubstr("another encoder.dialect than maxsim"));
  EXPECT_EQ(error({"--encoder.query_prefix", "q: ", "--encoder.dialect", "vllm"}), "");
  EXPECT_THAT(error({"--encoder.query_prompt_name", "query", "--encoder.dialect", "vllm"}),
              HasSubstr("encoder.query_prompt_name: \"query\" is only sent in encoder.dialect tei, and it is vllm"));
  EXPECT_THAT(error({"--encoder.document_prompt_name", "d"}), HasSubstr("encoder.document_prompt_name: \"d\" is only"));
  EXPECT_EQ(error({"--encoder.query_prompt_name", "query", "--encoder.dialect", "tei"}), "");
  EXPECT_THAT(error({"--encoder.tls_cert_file", "c"}), HasSubstr("must be given together"));
  EXPECT_THAT(error({"--encoder.url", "http://a:80", "--encoder.tls_ca_file", "ca"}), HasSubstr("it is http://a:80"));
}

}  // namespace
}  // namespace maxsim::config
