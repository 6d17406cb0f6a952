// Reads the state of the machine's GPUs from the driver's library, if it is installed.
#pragma once

#include <memory>
#include <vector>

namespace maxsim {

struct GpuState {
  int device = 0;  // as NVML numbers them, which is the order of the PCI bus
  double utilization_ratio = 0;
  double temperature_celsius = 0;
  double power_watts = 0;
};

// The class is not thread-safe.
class Nvml {
 public:
  // Returns null if the machine has no libnvidia-ml.so.1, or if that cannot be initialized.
  static std::unique_ptr<Nvml> Open();
  virtual ~Nvml() = default;

  // Returns the state of each GPU that answers.
  virtual std::vector<GpuState> Read() = 0;
};

}  // namespace maxsim
