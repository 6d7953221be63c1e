// RUN: ocannl-opt -p lower-texpr-to-assign %s | filecheck %s
// RUN: ocannl-opt -p lower-texpr-to-assign,lower-assign-to-loops,plan-memory -t llvm %s | filecheck %s --check-prefix=LLVM
// RUN: ocannl-opt -p lower-texpr-to-assign,lower-assign-to-loops,plan-memory,lower-loops-to-kernels -t ptx %s | filecheck %s --check-prefix=PTX

// Few bytes go to all ranks, which sum them. Parts that do not fit are packed, and rows are unpacked.

// CHECK-LABEL: assign.routine @step mesh (data = 4)
texpr.routine @step mesh (data = 4) {
  // CHECK: %x = assign.node "x" constant split 0 of 10 over "data" because "data" : memref<3x6xf32>
  %x = texpr.data "x" split 0 of 10 over "data" : !texpr.tensor<3 | 6, f32>
  %part = texpr.data "part" : !texpr.tensor<10 | 6, f32>

  // CHECK: assign.collective all_gather %sum_rows from %part over "data"
  // CHECK-NEXT: assign.accum %sum[i, i1] :add= %sum_rows[r, i, i1] over (i = 10, i1 = 6, r = 4)
  %sum = texpr.all_reduce %part add over "data" : !texpr.tensor<10 | 6, f32>
  texpr.forward %sum

  // CHECK-NEXT: assign.collective all_gather %whole_rows from %x over "data"
  // CHECK-NEXT: assign.accum %whole[i + 3*r, i1] = %whole_rows[r, i, i1] over (r = 3, i = 3, i1 = 6)
  // CHECK-NEXT: assign.accum %whole[9, i] = %whole_rows[3, 0, i] over (i = 6)
  %whole = texpr.all_gather %x at 0 of 10 over "data" : !texpr.tensor<10 | 6, f32>
  texpr.forward %whole

  // CHECK-NEXT: assign.accum %other_packed[r, i, i1] := %x[i, i1 + 2*r] over (r = 3, i = 3, i1 = 2)
  // CHECK-NEXT: assign.collective all_to_all %other_rows from %other_packed over "data"
  %other = texpr.all_to_all %x at 0 of 10 to 1 over "data" : !texpr.tensor<10 | 2, f32>
  texpr.forward %other
}

// Many bytes are summed where they meet, each rank's part of them, and gathered; no byte is copied where parts are even.

// CHECK-LABEL: assign.routine @large mesh (data = 4)
// LLVM-LABEL: define void @"routine large"(ptr %args)
// LLVM: call void %[[ENGINE:.*]](i64 3, ptr %{{.*}}, ptr %{{.*}})
// LLVM: call void %[[ENGINE]](i64 4, ptr %{{.*}}, ptr %{{.*}})
texpr.routine @large mesh (data = 4) {
  %part = texpr.data "part" : !texpr.tensor<128 | 512, f32>

  // CHECK: assign.collective all_to_all %sum_rows from %part over "data"
  // CHECK-NEXT: assign.accum %sum_part[i] :add= %sum_rows[r, i] over (i = 16384, r = 4)
  // CHECK-NEXT: assign.collective all_gather %sum from %sum_part over "data"
  %sum = texpr.all_reduce %part add over "data" : !texpr.tensor<128 | 512, f32>
  texpr.forward %sum
}

// Uneven parts are along the axis that has the least beyond its end.

// Between kernels for a GPU the host has NCCL do it: the steps, and the numbers of collectives.
// PTX: "name": "large"
// PTX: "function": "large_sum_part"
// PTX: "collectives": [{"step": 0, "number": 3, "target": "sum_rows", "source": "part"}, {"step": 2, "number": 4, "target": "sum", "source": "sum_part"}]

// CHECK-LABEL: assign.routine @uneven mesh (data = 4)
texpr.routine @uneven mesh (data = 4) {
  %part = texpr.data "part" : !texpr.tensor<129 | 511, f32>

  // CHECK: assign.accum %sum_packed[r, i, i1] := %part[i, i1 + 128*r] over (r = 3, i = 129, i1 = 128)
  // CHECK: assign.collective all_to_all %sum_rows from %sum_packed over "data"
  // CHECK-NEXT: assign.accum %sum_part[i, i1] :add= %sum_rows[r, i, i1] over (i = 129, i1 = 128, r = 4)
  // CHECK-NEXT: assign.collective all_gather %sum_rows_1 from %sum_part over "data"
  %sum = texpr.all_reduce %part add over "data" : !texpr.tensor<129 | 511, f32>
  texpr.forward %sum
}
