// The functions of libascendcl that the tests call themselves.
#pragma once

#include "../src/acl/abi.hpp"

extern "C" {
aclError aclInit(const char* config);
aclError aclrtSetDevice(std::int32_t device);
aclError aclrtMalloc(void** address, std::size_t bytes, int policy);
aclError aclrtFree(void* address);
aclError aclrtMallocHost(void** address, std::size_t bytes);
aclError aclrtFreeHost(void* address);
aclError aclrtMemcpy(void* to, std::size_t room, const void* from, std::size_t bytes, int kind);
aclError aclrtMemcpyAsync(void* to, std::size_t room, const void* from, std::size_t bytes, int kind, aclrtStream stream);
aclError aclrtCreateStream(aclrtStream* stream);
aclError aclrtDestroyStream(aclrtStream stream);
aclError aclrtSynchronizeStream(aclrtStream stream);
aclError aclrtGetMemInfo(int attribute, std::size_t* free, std::size_t* total);
const char* aclGetRecentErrMsg();
aclDataBuffer* aclCreateDataBuffer(void* address, std::size_t bytes);
aclError aclDestroyDataBuffer(const aclDataBuffer* buffer);
aclmdlDataset* aclmdlCreateDataset();
aclError aclmdlDestroyDataset(const aclmdlDataset* dataset);
aclError aclmdlAddDatasetBuffer(aclmdlDataset* dataset, aclDataBuffer* buffer);
aclError aclmdlLoadFromMem(const void* bytes, std::size_t size, std::uint32_t* model);
aclError aclmdlUnload(std::uint32_t model);
aclError aclmdlExecuteAsync(std::uint32_t model, const aclmdlDataset* inputs, aclmdlDataset* outputs, aclrtStream stream);
}
