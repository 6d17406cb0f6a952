// Tests the keys of collections and of devices.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/config/load.h"
#include "tests/support/collection/corpus.h"
#include "tests/unit/server/config/config_fixture.h"

namespace maxsim::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

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
  EXPECT_THAT(ErrorOf(LoadWith({"--live.log=nats"})), HasSubstr("live.log is nats, which needs nats.url"));
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
    EXPECT_THAT(with(absl::StrCat("--nats.stream_prefix=", prefix)),
                HasSubstr("must be 1 to 32 characters of A-Z a-z 0-9 _ -"));
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
            "conf.yaml:2: cluster.partition: \"3/3\": partition 3; must be 0 to 2");
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
              HasSubstr("collection a: residency is gpu, but backend.kind is cpu"));
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

}  // namespace
}  // namespace maxsim::config
