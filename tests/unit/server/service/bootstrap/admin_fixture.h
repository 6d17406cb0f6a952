// A server whose clients may read snapshots and bootstrap collections (copy them from other servers). Its live
// collections are fakes that follow a stream.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collection/manifest.h"
#include "collection/partition/assemble.h"
#include "server/observability/metrics.h"
#include "server/service/collection_admin.h"
#include "server/store/collection_store.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/fake_live_documents.h"
#include "tests/support/fake_backend.h"
#include "tests/unit/server/service/bootstrap/snapshot_fixture.h"

namespace maxsim::service {

// Makes the folder of a live collection. The fakes need no contents of the log.
inline void MakeLive(const std::string& folder, int64_t count, uint64_t seed = 1) {
  test::BuildCorpus(folder, test::SmallDocuments(seed, count));
  std::filesystem::create_directory(folder + "/log");
  test::WriteFile(folder + "/log/CURRENT", "MANIFEST-000001\n");
}

// A server from start to end.
struct ServerRun {
  explicit ServerRun(std::vector<std::string> roots, store::StoreOptions options = {})
      : store(&devices, std::move(options)), admin(&store, &devices, &metrics, std::move(roots)) {
    store.SetOpenLive(
        [this](const store::LiveRequest& request) -> absl::StatusOr<std::shared_ptr<store::LiveDocuments>> {
          auto made = std::make_shared<test::FakeLiveDocuments>();
          made->live_state.sequence = 7;
          if (has_stream) made->live_state.stream = store::StreamState{.connected = true, .last_sequence = 7};
          made->on_snapshot = [from = request.path](const std::string& to) {
            std::filesystem::create_directory(to);
            for (const auto& entry : std::filesystem::directory_iterator(from)) {
              const std::string name = entry.path().filename().string();
              if (name.starts_with(".")) continue;  // `to` may lie in `from`
              std::filesystem::copy(entry.path(), std::filesystem::path(to) / name,
                                    std::filesystem::copy_options::recursive);
            }
          };
          if (on_open != nullptr) on_open(request.path, *made);
          live[request.path] = made;
          return made;
        });
  }

  // Starts as a server does.
  void Start() {
    admin.RemoveLeftovers();
    admin.LoadCreated();
  }

  // Enables bootstraps. Every source server sends the folder `from`. The result has the files of the first snapshot.
  void EnableBootstrap(const std::string& from) { admin.SetBootstrap(OptionsWith(from)); }
  BootstrapOptions OptionsWith(const std::string& from) {
    sources["a:1"].messages = MessagesOf(from, Beginning("docs"));
    sources["b:1"].messages = MessagesOf(from, Beginning("docs", 0, 2048));
    return {.open = [this](const std::string& address, const std::string&, const tracing::SpanParent&,
                           const StopSignal* stop) -> absl::StatusOr<std::unique_ptr<IncomingSnapshot>> {
              if (sources.count(address) == 0) return absl::UnavailableError("no such server");
              return std::make_unique<ScriptedSnapshot>(&sources.at(address), stop);
            },
            .assemble = [this](const std::vector<std::string>& folders,
                               const collection::AssembleOptions& wanted) -> absl::StatusOr<collection::Manifest> {
              if (on_assemble != nullptr) {
                if (absl::Status status = on_assemble(folders, wanted); !status.ok()) return status;
              }
              std::filesystem::copy(folders[0], wanted.output, std::filesystem::copy_options::recursive);
              return collection::ReadManifest(wanted.output);
            },
            .max_stall = max_stall};
  }

  absl::StatusOr<v1::BootstrapCollectionResponse> Bootstrap(const std::vector<std::string>& from,
                                                            const StopSignal* stop = nullptr) {
    v1::BootstrapCollectionRequest request;
    request.set_name("docs");
    for (const std::string& address : from) request.add_sources(address);
    return admin.Bootstrap(request, {.stop = stop});
  }

  uint64_t NumDocuments() {
    const auto found = store.Find("docs");
    return found.ok() ? (*found)->num_documents() : 0;
  }
  std::string Path() {
    for (const store::CollectionStatus& status : store.List()) {
      if (status.name == "docs") return status.path;
    }
    return "";
  }

  bool has_stream = true;
  absl::Duration max_stall = absl::Hours(1);  // takes effect with EnableBootstrap
  std::function<void(const std::string& path, test::FakeLiveDocuments& made)> on_open;
  std::function<absl::Status(const std::vector<std::string>& folders, const collection::AssembleOptions& options)>
      on_assemble;
  std::map<std::string, ScriptedSnapshot::Script> sources;
  std::map<std::string, std::weak_ptr<test::FakeLiveDocuments>> live;  // by folder
  test::FakeBackend backend;
  store::DeviceSet devices{{{&backend, 0}}, store::OnDeviceLoss::kExit};
  store::CollectionStore store;
  Metrics metrics;
  CollectionAdmin admin;
};

// Returns the names in a folder.
inline std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

}  // namespace maxsim::service
