# On the board: make, then sudo ./host. It checks a product and ten steps of training, by
# product/sw/host.c; another program takes its place with HOST=mine.c. make overlay: @NAME@.dtbo.
CC ?= cc
CFLAGS ?= -O2 -Wall -Wextra
HOST = product/sw/host.c

host: $(HOST) linux.c $(wildcard product/sw/*.h)
	$(CC) -std=c11 $(CFLAGS) -Iproduct/sw $(HOST) linux.c -lm -o $@
overlay: @NAME@.dtbo
@NAME@.dtbo: @NAME@.dtso
	dtc -@ -I dts -O dtb -o $@ $<
clean:
	rm -f host @NAME@.dtbo
.PHONY: overlay clean
