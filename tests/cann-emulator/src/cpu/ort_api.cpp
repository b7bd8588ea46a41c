#include "ort_api.hpp"

#include <dlfcn.h>
#include <link.h>
#include <string_view>

namespace ort {
namespace {

struct ApiBase {
    const void* const* (*GetApi)(std::uint32_t version);
    const char* (*GetVersionString)();
};

// The host may have opened the library without making its symbols global, so it is looked up among what is loaded.
const void* loaded_api_base() {
    std::string file;
    dl_iterate_phdr(
        [](dl_phdr_info* library, std::size_t, void* found) {
            const std::string_view path = library->dlpi_name;
            if (path.find("libonnxruntime.so") == std::string_view::npos) return 0;
            *static_cast<std::string*>(found) = path;
            return 1;
        },
        &file);
    void* library = file.empty() ? RTLD_DEFAULT : dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    const auto get = reinterpret_cast<const void* (*)()>(dlsym(library, "OrtGetApiBase"));
    if (!get) throw Error("no ONNX Runtime is loaded in this process");
    return get();
}

}  // namespace

Api::Api(const void* api_base) {
    const auto* base = static_cast<const ApiBase*>(api_base);
    const auto* table = base->GetApi(kApiVersion);
    if (!table) throw Error(std::string("ONNX Runtime ") + base->GetVersionString() + " is too old");
#define ORT_LOAD(place, name, result, ...) name = reinterpret_cast<decltype(name)>(const_cast<void*>(table[place]));
    ORT_FUNCTIONS(ORT_LOAD)
#undef ORT_LOAD
}

const Api& api() {
    static const Api loaded(loaded_api_base());
    return loaded;
}

}  // namespace ort
