# @NAME@ on the @BOARD@: a block design with the processor, the machine and its memory, to a bitstream.
#
#   vivado -mode batch -source build.tcl
#
# Machine: registers at @REGISTERS@ (4 KiB), memory over @MEMORY_PORT@, interrupt @IRQ_NUMBER@ of the processor.
set here [file dirname [file normalize [info script]]]
create_project -force @NAME@ $here/vivado -part @PART@
set boards [get_board_parts -quiet -latest_file_version @BOARD_PART@]
if {[llength $boards]} {
  set_property board_part [lindex $boards 0] [current_project]
}
foreach source {
@SOURCES@
} {
  add_files -norecurse [file join $here $source]
}
set_property verilog_define {SYNTHESIS=1} [current_fileset]
add_files -fileset constrs_1 -norecurse $here/@NAME@.xdc
update_compile_order -fileset sources_1

# The newest version of an IP that this Vivado has.
proc newest {name} {
  return [lindex [lsort -dictionary [get_ipdefs -all -filter "NAME == $name"]] end]
}

create_bd_design system
set ps [create_bd_cell -type ip -vlnv [newest @PS_IP@] ps]
if {[llength $boards]} {
  apply_bd_automation -rule xilinx.com:bd_rule:@PS_IP@ -config {@PS_PRESET@} $ps
}
set_property -dict {
@PS_PROPERTIES@
} $ps
create_bd_cell -type module -reference @TOP@ machine
create_bd_cell -type ip -vlnv [newest proc_sys_reset] reset
create_bd_cell -type ip -vlnv [newest smartconnect] control
set_property -dict {CONFIG.NUM_SI 1 CONFIG.NUM_MI 1} [get_bd_cells control]
create_bd_cell -type ip -vlnv [newest smartconnect] memory
set_property -dict {CONFIG.NUM_SI @PORTS@ CONFIG.NUM_MI 1} [get_bd_cells memory]

# Clock and reset of everything.
connect_bd_net [get_bd_pins ps/@PS_CLOCK@] \
  [get_bd_pins machine/aclk] \
  [get_bd_pins reset/slowest_sync_clk] \
  [get_bd_pins control/aclk] \
  [get_bd_pins memory/aclk] \
@PS_BUS_CLOCKS@
connect_bd_net [get_bd_pins ps/@PS_RESET@] [get_bd_pins reset/ext_reset_in]
connect_bd_net [get_bd_pins reset/peripheral_aresetn] \
  [get_bd_pins machine/aresetn] \
  [get_bd_pins control/aresetn] \
  [get_bd_pins memory/aresetn]

# Registers, memory, interrupt.
connect_bd_intf_net [get_bd_intf_pins ps/@PS_MASTER@] [get_bd_intf_pins control/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins control/M00_AXI] [get_bd_intf_pins machine/s_axil]
@MEMORY_NETS@
connect_bd_intf_net [get_bd_intf_pins memory/M00_AXI] [get_bd_intf_pins ps/@PS_SLAVE@]
connect_bd_net [get_bd_pins machine/irq] [get_bd_pins ps/@PS_IRQ@]

assign_bd_address -offset @REGISTERS@ -range @REGISTERS_RANGE@ \
  -target_address_space [get_bd_addr_spaces ps/Data] [get_bd_addr_segs machine/s_axil/reg0]
assign_bd_address
validate_bd_design
save_bd_design
set wrapper [make_wrapper -files [get_files system.bd] -top]
add_files -norecurse $wrapper
set_property top system_wrapper [current_fileset]

launch_runs impl_1 -to_step write_bitstream -jobs 4
wait_on_run impl_1
if {[get_property PROGRESS [get_runs impl_1]] != "100%"} {
  error "the implementation failed; see $here/vivado"
}
open_run impl_1
report_utilization -file $here/utilisation.txt
report_timing_summary -file $here/timing.txt
write_hw_platform -fixed -include_bit -force $here/@NAME@.xsa
