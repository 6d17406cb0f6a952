#include "server/observability/nvml.h"

#include <dlfcn.h>

namespace maxsim {
namespace {

// Declares the part of nvml.h that is used here, so that building needs no driver package. The ABI is stable: NVIDIA
// adds versioned symbols and keeps the old ones.
using Device = void*;
struct Utilization {
  unsigned gpu = 0;  // per cent
  unsigned memory = 0;
};
constexpr int kSuccess = 0;
constexpr int kTemperatureGpu = 0;

class LoadedNvml : public Nvml {
 public:
  explicit LoadedNvml(void* library) : library_(library) {}

  ~LoadedNvml() override {
    if (started_) shutdown_();
    dlclose(library_);
  }
  LoadedNvml(const LoadedNvml&) = delete;
  LoadedNvml& operator=(const LoadedNvml&) = delete;

  bool Start() {
    int (*init)() = nullptr;
    if (!Find("nvmlInit_v2", init) || !Find("nvmlShutdown", shutdown_) ||
        !Find("nvmlDeviceGetCount_v2", device_count_) || !Find("nvmlDeviceGetHandleByIndex_v2", device_by_index_) ||
        !Find("nvmlDeviceGetUtilizationRates", utilization_) || !Find("nvmlDeviceGetTemperature", temperature_) ||
        !Find("nvmlDeviceGetPowerUsage", power_)) {
      return false;
    }
    started_ = init() == kSuccess;
    return started_;
  }

  std::vector<GpuState> Read() override {
    std::vector<GpuState> states;
    unsigned count = 0;
    if (device_count_(&count) != kSuccess) return states;
    for (unsigned idx = 0; idx < count; ++idx) {
      Device device = nullptr;
      Utilization utilization;
      unsigned celsius = 0;
      unsigned milliwatts = 0;
      if (device_by_index_(idx, &device) != kSuccess || utilization_(device, &utilization) != kSuccess ||
          temperature_(device, kTemperatureGpu, &celsius) != kSuccess || power_(device, &milliwatts) != kSuccess) {
        continue;
      }
      states.push_back({.device = static_cast<int>(idx),
                        .utilization_ratio = utilization.gpu / 100.0,
                        .temperature_celsius = static_cast<double>(celsius),
                        .power_watts = milliwatts / 1000.0});
    }
    return states;
  }

 private:
  template <typename Function>
  bool Find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    return function != nullptr;
  }

  void* const library_;
  bool started_ = false;
  int (*shutdown_)() = nullptr;
  int (*device_count_)(unsigned*) = nullptr;
  int (*device_by_index_)(unsigned, Device*) = nullptr;
  int (*utilization_)(Device, Utilization*) = nullptr;
  int (*temperature_)(Device, int, unsigned*) = nullptr;
  int (*power_)(Device, unsigned*) = nullptr;
};

}  // namespace

std::unique_ptr<Nvml> Nvml::Open() {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  auto nvml = std::make_unique<LoadedNvml>(library);
  if (!nvml->Start()) return nullptr;
  return nvml;
}

}  // namespace maxsim
