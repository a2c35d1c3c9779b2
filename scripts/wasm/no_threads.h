// Included before every source: WebAssembly has one thread and no files, and the C++ library of the
// compiler then lacks classes that Verilator's run-time names. None of these classes is used at run time.
#pragma once
#define VL_IGNORE_UNKNOWN_ARCH  // Verilator knows no instruction to wait with
#include <condition_variable>
#include <fstream>
#include <functional>
#include <istream>
#include <mutex>
#include <thread>
#include <time.h>

#define CLOCK_PROCESS_CPUTIME_ID CLOCK_MONOTONIC

namespace std {
template <>
class basic_ifstream<char> : public istream {
public:
    template <typename Name>
    explicit basic_ifstream(const Name&) : istream(nullptr) {}
};
struct mutex {
    void lock() {}
    bool try_lock() { return true; }
    void unlock() {}
};
struct condition_variable_any {
    template <typename... Arguments>
    void wait(Arguments&&...) {}
    void notify_one() {}
    void notify_all() {}
};
struct thread {
    struct id {
        bool operator==(const id&) const { return true; }
        bool operator!=(const id&) const { return false; }
        bool operator<(const id&) const { return false; }
    };
    using native_handle_type = void*;
    thread() = default;
    template <typename... Arguments>
    explicit thread(Arguments&&...) { __builtin_trap(); }
    bool joinable() const { return false; }
    void join() {}
    native_handle_type native_handle() { return nullptr; }
    static unsigned hardware_concurrency() { return 1; }
};
namespace this_thread {
inline thread::id get_id() { return {}; }
inline void yield() {}
}  // namespace this_thread
template <>
struct hash<thread::id> {
    size_t operator()(const thread::id&) const { return 0; }
};
}  // namespace std
