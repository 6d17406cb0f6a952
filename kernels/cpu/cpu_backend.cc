// The CPU backend chooses an instruction set, owns the threads and describes the machine.
#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/codes/appendable_codes.h"
#include "kernels/cpu/cpu_appendable.h"
#include "kernels/cpu/cpu_appendable_codes.h"
#include "kernels/cpu/cpu_codes.h"
#include "kernels/cpu/cpu_documents.h"
#include "kernels/cpu/cpu_executor.h"
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/machine.h"
#include "kernels/thread_pool.h"
#include "kernels/validate.h"

namespace maxsim {
namespace cpu {
namespace {

// The maximum number of token pairs (query token x document token) per thread that one call of the executor should
// have. They take 0.2 s at dimension 128 with AVX2, and some 0.7 s without vector instructions: so long that the
// overhead of dividing work into several calls does not matter.
constexpr uint64_t kCallWorkPerThread = uint64_t{1} << 26;

class CpuBackend final : public Backend {
 public:
  CpuBackend(const Isa& isa, int num_threads) : isa_(isa), pool_(num_threads) {
    info_.name = "cpu";
    info_.device = CpuModelName();
    info_.isa = isa.name;
    info_.parallelism = num_threads;
    info_.max_call_work = static_cast<uint64_t>(num_threads) * kCallWorkPerThread;
    info_.memory_bytes = MemoryBytes();
  }

  const BackendInfo& info() const override { return info_; }
  absl::StatusOr<size_t> FreeBytes() const override { return AvailableMemoryBytes(); }

  // Documents are scored where they lie.
  MemoryNeed BytesNeeded(ScalarType, int32_t, int64_t, int64_t, Tier) const override { return {}; }

  absl::StatusOr<std::unique_ptr<Documents>> Load(const DocumentsView& documents, Tier,
                                                  std::shared_ptr<const void> keep_alive) override {
    if (absl::Status status = ValidateDocuments(documents); !status.ok()) return status;
    return std::make_unique<CpuDocuments>(documents, std::move(keep_alive));
  }

  absl::StatusOr<std::shared_ptr<AppendableDocuments>> CreateAppendable(const AppendableShape& shape) override {
    if (absl::Status status = ValidateAppendableShape(shape); !status.ok()) return status;
    return CpuAppendable::Create(shape);
  }

  absl::StatusOr<std::unique_ptr<Executor>> CreateExecutor(const ExecutorOptions&) override {
    return std::make_unique<CpuExecutor>(isa_, pool_);
  }

  absl::StatusOr<std::unique_ptr<LoadedCodes>> LoadCodes(const CodesView& codes, int planes,
                                                         std::shared_ptr<const void> keep_alive) override {
    return CpuCodes::Create(codes, planes, std::move(keep_alive));
  }

  absl::StatusOr<std::shared_ptr<AppendableCodes>> CreateAppendableCodes(const AppendableCodesShape& shape) override {
    if (absl::Status status = ValidateAppendableCodesShape(shape); !status.ok()) return status;
    return CpuAppendableCodes::Create(shape);
  }

  absl::StatusOr<std::unique_ptr<ScanExecutor>> CreateScanExecutor() override {
    return std::make_unique<CpuScanExecutor>(isa_, pool_);
  }

  absl::Status Health() const override { return absl::OkStatus(); }

 private:
  const Isa& isa_;
  ThreadPool pool_;
  BackendInfo info_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend(const Isa& isa, int num_threads) {
  return std::make_unique<CpuBackend>(isa, num_threads);
}

}  // namespace cpu

std::vector<std::string> CpuIsas() {
  std::vector<std::string> names;
  for (const cpu::Isa* isa : cpu::AvailableIsas()) names.emplace_back(isa->name);
  return names;
}

absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const CpuOptions& options) {
  if (options.num_threads < 0 || options.num_threads > kMaxCpuThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_threads is ", options.num_threads, "; must be 0 to ", kMaxCpuThreads));
  }
  const std::vector<const cpu::Isa*>& isas = cpu::AvailableIsas();
  const auto isa = std::find_if(isas.begin(), isas.end(), [&](const cpu::Isa* candidate) {
    return options.isa.empty() || options.isa == candidate->name;
  });
  if (isa == isas.end()) {
    return absl::InvalidArgumentError(absl::StrCat("isa is \"", options.isa, "\"; this machine and this build have ",
                                                   absl::StrJoin(CpuIsas(), ", ")));
  }
  const int num_threads = options.num_threads == 0 ? cpu::AvailableCores() : options.num_threads;
  return cpu::MakeCpuBackend(**isa, num_threads);
}

}  // namespace maxsim
