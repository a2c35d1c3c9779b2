/* A Linux with a machine in it, for programs that are started with this library in LD_PRELOAD.

   Files below /dev and /sys are those of the folder SHIM_ROOT. A UIO device has the registers of the machine
   in Verilator, whose library this one is linked with, and its interrupt; DEAD in the environment:
   the interrupt never comes. The device SHIM_BUFFER has the machine's memory, of the address and
   size that the files of its class say.

   Pages of registers allow no access: each one ends in a signal, which is told the address, asks the
   machine, and lets the processor do this one instruction. So whatever the program's compiler makes
   of a register, the machine sees it. x86-64 alone. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "simulated_machine.h"

enum { PAGE = 4096, STEP = 0x100, WRITES = 2 };

static machine *its;
static uint64_t buffer_bytes;
static int registers_file = -1, buffer_file = -1, enabled;
static uint8_t *page;
static volatile uint32_t offset;
static volatile int writes;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void fail(const char *text)
{
    fprintf(stderr, "shim: %s\n", text);
    _exit(99);
}

/* Where the file is that the program means. */
static const char *moved(const char *path, char *place)
{
    if (strncmp(path, "/dev/", 5) && strncmp(path, "/sys/", 5)) return path;
    if (snprintf(place, 1024, "%s%s", getenv("SHIM_ROOT"), path) >= 1024) fail("a long path");
    return place;
}

static uint64_t number(const char *name)
{
    char path[1024], line[64] = "";
    FILE *file;
    snprintf(path, sizeof path, "%s/sys/class/u-dma-buf/%s/%s", getenv("SHIM_ROOT"),
             getenv("SHIM_BUFFER"), name);
    file = REAL(fopen)(path, "r");
    if (!file || !fgets(line, sizeof line, file)) fail("a buffer without address or size");
    fclose(file);
    return strtoull(line, NULL, 0);
}

static void start(void)
{
    struct options options = {0, 0, 20, 20, 4, 0, 20000, 5, 0, 0};
    if (its) return;
    options.base = number("phys_addr");
    options.bytes = buffer_bytes = number("size");
    if (buffer_bytes != MEMORY_BYTES) fail("a buffer of another size");
    its = machine_new(&options);
    if (!its) fail("no machine");
    machine_reset(its);
    memset(machine_memory(its), 0xA5, options.bytes);
}

/* Before the instruction: a value to read is put in the page. */
static void on_access(int signal_number, siginfo_t *info, void *context)
{
    greg_t *state = ((ucontext_t *)context)->uc_mcontext.gregs;
    uint8_t *at = info->si_addr;
    if (!page || at < page || at >= page + PAGE) {
        signal(signal_number, SIG_DFL);
        return;
    }
    start();
    offset = (uint32_t)(at - page);
    writes = (state[REG_ERR] & WRITES) != 0;
    if (offset % 4) fail("an access that is not on a word");
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
    if (!writes) {
        *(volatile uint32_t *)(page + offset) = read_listed(its, offset);
        mprotect(page, PAGE, PROT_READ);
    }
    state[REG_EFL] |= STEP;
}

/* After it: what was written is in the page. */
static void on_step(int signal_number, siginfo_t *info, void *context)
{
    (void)signal_number, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)STEP;
    if (writes) write_listed(its, offset, *(volatile uint32_t *)(page + offset));
    mprotect(page, PAGE, PROT_NONE);
}

int open(const char *path, int flags, ...)
{
    char place[1024];
    const char *device = strncmp(path, "/dev/", 5) ? "" : path + 5;
    va_list more;
    int mode, file;
    va_start(more, flags);
    mode = flags & O_CREAT ? va_arg(more, int) : 0;
    va_end(more);
    file = REAL(open)(moved(path, place), flags, mode);
    if (file >= 0 && *device && !(flags & O_SYNC)) fail("a device is opened without O_SYNC");
    if (!strncmp(device, "uio", 3)) registers_file = file;
    if (*device && !strcmp(device, getenv("SHIM_BUFFER"))) buffer_file = file;
    return file;
}

FILE *fopen(const char *path, const char *how)
{
    char place[1024];
    return REAL(fopen)(moved(path, place), how);
}

DIR *opendir(const char *path)
{
    char place[1024];
    return REAL(opendir)(moved(path, place));
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t from)
{
    struct sigaction action;
    if (file < 0 || (file != registers_file && file != buffer_file))
        return REAL(mmap)(at, bytes, protection, flags, file, from);
    if (!(flags & MAP_SHARED) || from) fail("a device is mapped in private, or not from its begin");
    if (file == buffer_file) {
        start();
        if (bytes != buffer_bytes) fail("a part of the buffer is mapped");
        return machine_memory(its);
    }
    if (bytes != PAGE) fail("not all registers are mapped");
    memset(&action, 0, sizeof action);
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = on_access;
    sigaction(SIGSEGV, &action, NULL);
    action.sa_sigaction = on_step;
    sigaction(SIGTRAP, &action, NULL);
    page = REAL(mmap)(NULL, PAGE, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return page;
}

ssize_t write(int file, const void *from, size_t bytes)
{
    if (file < 0 || file != registers_file) return REAL(write)(file, from, bytes);
    if (bytes != 4) fail("an interrupt is enabled by four bytes");
    enabled = *(const uint32_t *)from == 1;
    return 4;
}

int poll(struct pollfd *files, nfds_t count, int limit)
{
    if (count != 1 || files->fd != registers_file) return REAL(poll)(files, count, limit);
    if (!enabled) fail("an interrupt is waited for that is not enabled");
    if (machine_run(its, 1000000)) fail("the machine hangs");
    if (getenv("DEAD")) return 0;
    files->revents = POLLIN;
    return 1;
}

ssize_t read(int file, void *to, size_t bytes)
{
    static uint32_t count;
    if (file < 0 || file != registers_file) return REAL(read)(file, to, bytes);
    if (!enabled || bytes != 4) fail("an interrupt is read that did not come");
    enabled = 0; /* as the driver does, until it is enabled again */
    ++count;
    memcpy(to, &count, sizeof count);
    return 4;
}
