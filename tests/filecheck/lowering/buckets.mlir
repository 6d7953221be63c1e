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

// Parts of parameters are gathered with the first of them: `w` by rows, `b` as it is. `a` is there once, though it is gathered twice;
// what was written since is gathered anew.

// CHECK-LABEL: assign.routine @gathers
texpr.routine @gathers indices (data.rank = 2) mesh (data = 2) {
  %w = texpr.param "w" split 1 of 6 over "data" : !texpr.tensor<3 -> 2, f32>
  %a = texpr.param "a" split 0 of 6 over "data" : !texpr.tensor<3, f32>
  %b = texpr.node "b" split 0 of 6 over "data" : !texpr.tensor<3, f32>
  %y = texpr.node "y" : !texpr.tensor<2, f32>
  %one = texpr.constant 1.0 : !texpr.tensor<f32>
  %w_whole = texpr.all_gather %w at 1 of 6 over "data" : !texpr.tensor<6 -> 2, f32>
  %a_whole = texpr.all_gather %a at 0 of 6 over "data" : !texpr.tensor<6, f32>
  %again = texpr.all_gather %a at 0 of 6 over "data" : !texpr.tensor<6, f32>
  %b_whole = texpr.all_gather %b at 0 of 6 over "data" : !texpr.tensor<6, f32>
  // CHECK: assign.accum %w_whole_bucket[3*i + i1] = %w[i, i1] over (i = 2, i1 = 3)
  // CHECK-NEXT: assign.accum %w_whole_bucket[i + 6] = %a[i] over (i = 3)
  // CHECK-NEXT: assign.collective all_gather %w_whole_bucket_rows from %w_whole_bucket over "data" gathers ("w_whole", "a_whole", "again")
  // CHECK-NEXT: assign.accum %w_whole[i, i1 + 3*r] := %w_whole_bucket_rows[r, 3*i + i1] over (r = 2, i = 2, i1 = 3)
  // CHECK-NEXT: assign.accum %y[o] = 1.0 over (o = 2)
  // CHECK-NEXT: assign.accum %a_whole[i + 3*r] = %w_whole_bucket_rows[r, i + 6] over (r = 2, i = 3)
  // CHECK-NEXT: assign.accum %b[o] = %a_whole[o] over (o = 3)
  // CHECK-NEXT: assign.accum %again[i + 3*r] = %w_whole_bucket_rows[r, i + 6] over (r = 2, i = 3)
  // CHECK-NEXT: assign.collective all_gather %b_whole from %b over "data"{{$}}
  texpr.forward %w_whole
  texpr.assign %y[o] = %one[] over (o = 2)
  texpr.forward %a_whole
  texpr.assign %b[o] = %a_whole[o] over (o = 3)
  texpr.forward %again
  texpr.forward %b_whole
}

// Small sums of which each rank has a part share an exchange, too, as rows for each rank.

// CHECK-LABEL: assign.routine @scatters
texpr.routine @scatters indices (data.rank = 2) mesh (data = 2) {
  %a = texpr.data "a" : !texpr.tensor<6, f32>
  %b = texpr.data "b" : !texpr.tensor<6 -> 2, f32>
  %a_sum = texpr.reduce_scatter %a add to 0 over "data" : !texpr.tensor<3, f32>
  %b_sum = texpr.reduce_scatter %b add to 1 over "data" : !texpr.tensor<3 -> 2, f32>
  // CHECK: assign.accum %b_sum_packed[r, i, i1] := %b[i, i1 + 3*r] over (r = 2, i = 2, i1 = 3)
  // CHECK-NEXT: assign.accum %b_sum_bucket[r, i + 6] = %a[i + 3*r] over (r = 2, i = 3)
  // CHECK-NEXT: assign.accum %b_sum_bucket[r, 3*i + i1] = %b_sum_packed[r, i, i1] over (r = 2, i = 2, i1 = 3)
  // CHECK-NEXT: assign.collective all_to_all %b_sum_bucket_rows from %b_sum_bucket over "data" sums ("b_sum", "a_sum")
  // CHECK-NEXT: assign.accum %a_sum[i] :add= %b_sum_bucket_rows[r, i + 6] over (i = 3, r = 2)
  // CHECK-NEXT: assign.accum %b_sum[i, i1] :add= %b_sum_bucket_rows[r, 3*i + i1] over (i = 2, i1 = 3, r = 2)
  texpr.forward %a_sum
  texpr.forward %b_sum
}
