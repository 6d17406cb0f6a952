// The whole server, which main() and the service tests both use. The class is thread-safe except for Start, Run and
// destruction, which one thread must call one after another.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/batching/scheduler.h"
#include "server/config/config.h"
#include "server/grpc/grpc_admin.h"
#include "server/grpc/grpc_documents.h"
#include "server/grpc/grpc_port.h"
#include "server/grpc/grpc_reranker.h"
#include "server/grpc/port_probe.h"
#include "server/grpc/reflection.h"
#include "server/http/http_server.h"
#include "server/observability/activity.h"
#include "server/observability/metrics.h"
#include "server/role.h"
#include "server/service/call/auth.h"
#include "server/service/call/call_tracker.h"
#include "server/service/call/worker.h"
#include "server/service/tenant_gate/tenant_documents.h"
#include "server/service/tenant_gate/tenant_questions.h"
#include "server/startup.h"
#include "server/tls/tls_certificates.h"
#include "server/tracing/tracer.h"

namespace maxsim {

class Server {
 public:
  // Run returns this as the process' exit code if a device was lost. Not 0, so that the orchestrator starts another
  // server.
  static constexpr int kExitDeviceLost = 3;

  // Makes the configured role and the services, but opens no port. If `backends` is not empty, a server of collections
  // uses these in place of the configured ones. A router ignores them.
  static absl::StatusOr<std::unique_ptr<Server>> Create(config::Config config,
                                                        std::vector<NumberedBackend> backends = {});
  // Shuts down without delay or grace if Run did not.
  ~Server();

  // Opens the ports (not ready yet), starts the role (which loads the configured collections), writes the port file,
  // and becomes ready. After an error the server must be destroyed.
  absl::Status Start();

  // Blocks until RequestStop is called or no device can answer any more, then shuts down:
  //   1. The server is not ready (health NOT_SERVING, /readyz 503), but still serves for server.shutdown_delay.
  //   2. New requests get UNAVAILABLE, and loads stop. Accepted requests have server.shutdown_grace to finish; after
  //      that, they fail.
  //   3. New calls are still refused until none has come for a moment. A call that arrived while gRPC closes the port
  //      would get CANCELLED, which does not tell its client to retry elsewhere.
  //   4. The gRPC port closes.
  //   5. The HTTP port closes. Until then it answers probes and requests for metrics.
  //   6. Queued spans are sent to the trace collector, in what is left of the grace.
  // The port file is removed between 1 and 2. If the server stops because of a lost device, it skips
  // server.shutdown_delay. Returns the process' exit code.
  int Run();

  // Begins the shutdown, and logs `reason`. Calls after the first do nothing.
  void RequestStop(const std::string& reason);

  // Reads the tokens and the certificates again before it returns, so that a revoked one does not stay valid while
  // collections load. If the server has been ready, also starts to reload every collection in the background. Logs the
  // outcomes.
  void RequestReload();

  // Returns OK, or the reason why a load balancer should send requests elsewhere.
  absl::Status Readiness() const;
  // Returns the text of Role::Losses.
  std::string Losses() const { return role_->Losses(); }
  // Returns true once Start has made the server ready, even while it shuts down.
  bool has_served() const;

  int grpc_port() const { return grpc_ == nullptr ? 0 : grpc_->port(); }
  int http_port() const { return http_port_; }  // 0: HTTP is off

  // For tests. Only a server of collections has a scheduler.
  batching::Scheduler& scheduler();
  Metrics& metrics() { return *metrics_; }

 private:
  enum class Phase { kLoading, kServing, kDraining, kStopped };

  Server(config::Config config, std::unique_ptr<Metrics> metrics, std::unique_ptr<Role> role);
  absl::Status OpenPorts();
  absl::Status StartRole();
  void SetPhase(Phase phase);
  void Monitor();
  void OnPortChange(const absl::Status& status);
  std::unique_ptr<PortProbe> TakePortProbe();
  void CheckHealth();
  void Shutdown(absl::Duration delay, absl::Duration grace);
  void RemoveOwnPortFile();
  void CloseGrpcPort(absl::Time deadline, absl::Duration grace);

  const config::Config config_;
  // The members are in order of dependence: each uses only those above it.
  const std::unique_ptr<Metrics> metrics_;
  const std::unique_ptr<tracing::Tracer> tracer_;
  Activity activity_;
  const std::unique_ptr<Role> role_;
  service::Authenticator authenticator_;
  TlsCertificates certificates_;
  std::unique_ptr<service::Worker> worker_;
  service::CallTracker calls_;
  // Between the ports and the role. They let tenants see only their documents.
  service::TenantQuestions questions_;
  service::TenantDocuments documents_;
  rpc::GrpcReranker reranker_;
  rpc::GrpcDocuments document_calls_;
  rpc::GrpcAdmin admin_;
  rpc::Reflection reflection_;
  std::unique_ptr<GrpcPort> grpc_;
  std::unique_ptr<http::HttpServer> http_;
  int http_port_ = 0;
  bool port_file_written_ = false;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kLoading;
  std::string loading_ ABSL_GUARDED_BY(mutex_);  // what the role waits for
  bool stop_requested_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_served_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status health_ ABSL_GUARDED_BY(mutex_);  // not OK once no call can be answered any more
  bool monitor_stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<PortProbe> port_probe_ ABSL_GUARDED_BY(mutex_);  // while the server serves

  std::thread monitor_;
};

}  // namespace maxsim
