"""The functions of torch.cuda and torch.accelerator, where they are answered by something that is no GPU."""
