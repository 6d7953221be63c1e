// RUN: ocannl-opt -p lower-texpr-to-assign %s | filecheck %s
// RUN: ocannl-opt -p lower-texpr-to-assign %s | ocannl-opt -p lower-assign-to-loops | filecheck %s --check-prefix=LOOPS

// Sums that are ready before one of them is needed share an exchange, the largest in front. What needs one waits for it, what the
// next one reads does not. A sum that needs their results has another exchange.

// CHECK-LABEL: assign.routine @step
// LOOPS-LABEL: loops.func @step
texpr.routine @step mesh (data = 4) {
  %loss = texpr.data "loss" : !texpr.tensor<f32>
  %a = texpr.data "a" : !texpr.tensor<3 -> 5, f32>
  %b = texpr.data "b" : !texpr.tensor<7, f32>
  %mean = texpr.node "mean" : !texpr.tensor<f32>
  %loss_sum = texpr.all_reduce %loss add over "data" : !texpr.tensor<f32>
  %doubled = texpr.apply [o] = add(%b[o], %b[o]) over (o = 7) : !texpr.tensor<7, f32>
  %a_sum = texpr.all_reduce %a add over "data" : !texpr.tensor<3 -> 5, f32>
  %b_sum = texpr.all_reduce %doubled add over "data" : !texpr.tensor<7, f32>
  %scaled = texpr.apply [o] = mul(%b_sum[o], %loss_sum[]) over (o = 7) : !texpr.tensor<7, f32>
  %last = texpr.all_reduce %scaled add over "data" : !texpr.tensor<7, f32>
  // CHECK-NOT: loss_sum_rows
  // CHECK: assign.accum %doubled[o] := add(%b[o], %b[o]) over (o = 7)
  // CHECK-NEXT: assign.accum %a_sum_bucket[22] = %loss[] over ()
  // CHECK-NEXT: assign.accum %a_sum_bucket[3*i + i1] = %a[i, i1] over (i = 5, i1 = 3)
  // CHECK-NEXT: assign.accum %a_sum_bucket[i + 15] = %doubled[i] over (i = 7)
  // CHECK-NEXT: assign.collective all_gather %a_sum_bucket_rows from %a_sum_bucket over "data" sums ("a_sum", "b_sum", "loss_sum")
  // LOOPS: loops.collective all_gather %a_sum_bucket_rows from %a_sum_bucket over "data" sums ("a_sum", "b_sum", "loss_sum")
  // CHECK-NEXT: assign.accum %loss_sum[] :add= %a_sum_bucket_rows[r, 22] over (r = 4)
  // CHECK-NEXT: assign.accum %mean[] = %loss_sum[] over ()
  // CHECK-NEXT: assign.accum %a_sum[i, i1] :add= %a_sum_bucket_rows[r, 3*i + i1] over (i = 5, i1 = 3, r = 4)
  // CHECK-NEXT: assign.accum %b_sum[i] :add= %a_sum_bucket_rows[r, i + 15] over (i = 7, r = 4)
  // CHECK-NEXT: assign.accum %scaled[o]
  // CHECK-NEXT: assign.collective all_gather %last_rows from %scaled over "data"{{$}}
  texpr.forward %loss_sum
  texpr.assign %mean[] = %loss_sum[] over ()
  texpr.forward %a_sum
  texpr.forward %b_sum
  texpr.forward %last
}

// Numbers of another type, or over another axis of the mesh, are exchanged by themselves; no sum of these moves.

// CHECK-LABEL: assign.routine @kinds
texpr.routine @kinds mesh (data = 4, model = 2) {
  %a = texpr.data "a" : !texpr.tensor<5, f32>
  %b = texpr.data "b" : !texpr.tensor<5, f64>
  %y = texpr.node "y" : !texpr.tensor<5, f32>
  %a_sum = texpr.all_reduce %a add over "data" : !texpr.tensor<5, f32>
  %b_sum = texpr.all_reduce %b add over "data" : !texpr.tensor<5, f64>
  %c_sum = texpr.all_reduce %a max over "model" : !texpr.tensor<5, f32>
  // CHECK: assign.collective all_gather %a_sum_rows from %a over "data"
  // CHECK-NEXT: assign.accum %a_sum[i] :add=
  // CHECK-NEXT: assign.accum %y[o] = 1.0 over (o = 5)
  // CHECK-NEXT: assign.collective all_gather %b_sum_rows from %b over "data"
  // CHECK-NEXT: assign.accum %b_sum[i] :add=
  // CHECK-NEXT: assign.collective all_gather %c_sum_rows from %a over "model"
  // CHECK-NEXT: assign.accum %c_sum[i] :max=
  texpr.forward %a_sum
  %one = texpr.constant 1.0 : !texpr.tensor<f32>
  texpr.assign %y[o] = %one[] over (o = 5)
  texpr.forward %b_sum
  texpr.forward %c_sum
}

// A bucket has less than 64 KiB of all ranks together; a further one begins where there is no room.

// CHECK-LABEL: assign.routine @room
texpr.routine @room mesh (data = 4) {
  %a = texpr.data "a" : !texpr.tensor<2048, f32>
  %b = texpr.data "b" : !texpr.tensor<2048, f32>
  %c = texpr.data "c" : !texpr.tensor<2047, f32>
  %a_sum = texpr.all_reduce %a add over "data" : !texpr.tensor<2048, f32>
  %b_sum = texpr.all_reduce %b add over "data" : !texpr.tensor<2048, f32>
  %c_sum = texpr.all_reduce %c add over "data" : !texpr.tensor<2047, f32>
  // CHECK: assign.collective all_gather %a_sum_bucket_rows from %a_sum_bucket over "data" sums ("a_sum", "c_sum")
  // CHECK-NEXT: assign.collective all_gather %b_sum_rows from %b over "data"{{$}}
  texpr.forward %a_sum
  texpr.forward %b_sum
  texpr.forward %c_sum
}

// What is written after a sum has read it is written after the exchange.

// CHECK-LABEL: assign.routine @written
texpr.routine @written mesh (data = 4) {
  %a = texpr.node "a" : !texpr.tensor<5, f32>
  %b = texpr.data "b" : !texpr.tensor<5, f32>
  %one = texpr.constant 1.0 : !texpr.tensor<f32>
  %a_sum = texpr.all_reduce %a add over "data" : !texpr.tensor<5, f32>
  %b_sum = texpr.all_reduce %b add over "data" : !texpr.tensor<5, f32>
  // CHECK: assign.accum %a_sum_bucket[i] = %a[i] over (i = 5)
  // CHECK: assign.collective all_gather %a_sum_bucket_rows from %a_sum_bucket over "data" sums ("a_sum", "b_sum")
  // CHECK-NEXT: assign.accum %a_sum[i]
  // CHECK-NEXT: assign.accum %a[o] = 1.0 over (o = 5)
  // CHECK-NEXT: assign.accum %b_sum[i]
  texpr.forward %a_sum
  texpr.assign %a[o] = %one[] over (o = 5)
  texpr.forward %b_sum
}

// A message keeps its place among exchanges: the stage that it goes to may send what a later one needs.

// CHECK-LABEL: assign.routine @message
texpr.routine @message mesh (stage = 2, data = 4) {
  %a = texpr.data "a" : !texpr.tensor<5, f32>
  %b = texpr.data "b" : !texpr.tensor<5, f32>
  %a_sum = texpr.all_reduce %a add over "data" : !texpr.tensor<5, f32>
  %b_sum = texpr.all_reduce %b add over "data" : !texpr.tensor<5, f32>
  // CHECK: assign.collective all_gather %a_sum_rows from %a over "data"{{$}}
  // CHECK-NEXT: assign.accum %a_sum[i]
  // CHECK-NEXT: assign.collective send %a_sum as 0 to 1 over "stage"
  // CHECK-NEXT: assign.collective all_gather %b_sum_rows from %b over "data"{{$}}
  texpr.send %a_sum as 0 to 1 over "stage"
  texpr.forward %b_sum
}
